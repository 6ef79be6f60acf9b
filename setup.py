"""What pyproject.toml cannot say: with ACCEL_COMPILE=1 the core is built as C extension modules, by mypyc.

The same files, the same types, about half the time. Without it they stay Python, as in a checkout, where an edited
file must count at once. `core/schema` is never compiled, since msgspec reads the annotations of what it decodes, nor
`core/yaml`, which no review needs.
"""

import os
from pathlib import Path

from setuptools import setup


def extensions() -> list[object]:
    """The core's extension modules; none unless they are asked for."""
    if os.environ.get("ACCEL_COMPILE") != "1":
        return []
    from mypyc.build import mypycify

    core = Path("webhook/core")
    python = {core / "schema", core / "yaml"}
    files = sorted(str(path) for path in core.rglob("*.py") if python.isdisjoint(path.parents))
    return list(mypycify(files, opt_level="3", group_name="accel_injector"))


setup(ext_modules=extensions())
