"""The catalogue's names as TorchX named resources: `torchx run ... dist.ddp -h tpu_v4_16`. TorchX calls this module.

A resource contains only a placeholder limit, `accel.io/tpu-v4-16`, which the webhook replaces: TorchX cannot set
annotations. The names are in data/torchx.ini, which is also the package's list of entry points, so that a client
needs no catalogue: this module imports only the standard library and TorchX.

    python -m webhook.torchx        # regenerate data/torchx.ini from the catalogue; make docs does it too
"""

import configparser
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

GROUP = "torchx.named_resources"
"""Source: https://docs.pytorch.org/torchx/latest/advanced.html#registering-named-resources"""
COUNTS = (2, 4, 8)
"""Numbers of devices per replica with their own names, such as `nvidia_h100_80gb_x8`; without a suffix it is 1."""
PREFIX = "accel.io/"


def __getattr__(name: str) -> Callable[[], Any]:
    """`webhook.torchx.tpu_v4_16`: a function that returns the TorchX resource."""
    entry = _names().get(name)
    if entry is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return lambda: resource(entry)


@cache
def _names() -> dict[str, str]:
    """Attribute name to the name that users write; attributes cannot contain the dots of `nvidia_mig_1g.5gb`."""
    parser = configparser.ConfigParser(delimiters="=", interpolation=None)
    parser.read_string((files("webhook") / "data" / "torchx.ini").read_text())
    return {value.rpartition(":")[2]: name for name, value in parser[GROUP].items()}


def resource(name: str) -> Any:
    """The `torchx.specs.Resource` of one name; the user sets what the container needs besides devices."""
    from torchx.specs import Resource

    return Resource(cpu=0, gpu=0, memMB=0, devices=placeholder(name))


def placeholder(name: str) -> dict[str, int]:
    """`nvidia_l4_x2` as {"accel.io/nvidia-l4": 2}; a TPU's quantity is 1, one host's share."""
    for count in COUNTS:
        if name.endswith(f"_x{count}"):
            return {PREFIX + name.removesuffix(f"_x{count}").replace("_", "-"): count}
    return {PREFIX + name.replace("_", "-"): 1}


def names(types: Iterable[str]) -> Iterator[str]:
    """TorchX names of canonical types, except cloud machines: TorchX defines those names itself."""
    for name in types:
        if "_" in name:
            continue
        spelled = name.replace("-", "_")
        yield spelled
        if not name.startswith("tpu") and "-mig-" not in name:
            yield from (f"{spelled}_x{count}" for count in COUNTS)


def written(types: Iterable[str]) -> str:
    """The contents of data/torchx.ini for these types."""
    lines = (f"{name} = webhook.torchx:{name.replace('.', '_')}\n" for name in names(types))
    return f"# Made by `python -m webhook.torchx`.\n[{GROUP}]\n{''.join(lines)}"


def main() -> None:
    """Write data/torchx.ini into this package."""
    from pathlib import Path

    from webhook.load import load

    (Path(__file__).parent / "data" / "torchx.ini").write_text(written(load().catalogue.names()))


if __name__ == "__main__":
    main()
