"""What pyproject.toml cannot say: with ACCEL_COMPILE=1 the core is built as C extension modules, by mypyc.

The same files, the same types, about half the time. Without it they stay Python, as in a checkout, where an edited
file must count at once. Modules that declare what msgspec decodes are never compiled: it reads their annotations.
"""

import os
from pathlib import Path

from setuptools import setup

CORE = (
    "accelerator",
    "admission",
    "annotations",
    "catalogue",
    "container",
    "detect",
    "devices",
    "host",
    "inject",
    "limits",
    "messages",
    "metadata",
    "mutators",
    "patch",
    "placement",
    "quantity",
    "reapply",
    "resolution",
    "review",
    "scheduling",
    "slices",
    "workloads",
)


def extensions() -> list[object]:
    """The core's extension modules; none unless they are asked for."""
    if os.environ.get("ACCEL_COMPILE") != "1":
        return []
    from mypyc.build import mypycify

    files = [f"webhook/{name}.py" for name in CORE]
    kinds = sorted(str(path) for path in Path("webhook/kinds").glob("*.py"))
    return list(mypycify([*files, *kinds], opt_level="3", group_name="accel_injector"))


setup(ext_modules=extensions())
