"""The arithmetic of TPU slices: shapes, hosts, bounds, wrap. Pure, and independent of generations.

A shape is a tuple of chips along each axis: (2, 2, 2). Text forms are those that GKE's device plugin writes.
Source: https://github.com/ai-on-gke/tpu-device-plugin/blob/4626a9f4/pkg/tpu/util/util.go
"""

import re
from collections.abc import Iterator
from math import prod

Shape = tuple[int, ...]

HOST_BOUNDS: dict[int, Shape] = {1: (1, 1, 1), 2: (1, 2, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
"""How one host's chips are arranged, by their number (the plugin's `getChipsPerDim`)."""

_TEXT = re.compile(r"[1-9][0-9]{0,4}(?:x[1-9][0-9]{0,4}){1,2}")


def parse(text: str) -> Shape | None:
    """ "4x4x8" as (4, 4, 8); None unless it is two or three sizes."""
    return tuple(map(int, text.split("x"))) if _TEXT.fullmatch(text) else None


def written(shape: Shape) -> str:
    """(4, 4, 8) as "4x4x8"."""
    return "x".join(map(str, shape))


def bounds(shape: Shape) -> str:
    """(2, 2, 1) in libtpu's format: "2,2,1". A flat shape gets a trailing 1."""
    return ",".join(map(str, (*shape, 1)[:3] if len(shape) == 2 else shape))


def host_bounds(shape: Shape, chips_per_host: int) -> Shape | None:
    """Hosts along each axis, never sorted: (2, 4, 4) with 4 chips per host is (1, 2, 4).

    None if the hosts do not tile the shape.
    """
    host = HOST_BOUNDS[chips_per_host]
    solid = (*shape, 1) if len(shape) == 2 else shape
    if any(size % step for size, step in zip(solid, host, strict=True)):
        return None
    return tuple(size // step for size, step in zip(solid, host, strict=True))


def wraps(shape: Shape, rule: str) -> str:
    """Which axes wrap around, in the format of TPU_TOPOLOGY_WRAP: "true,true,false"."""
    solid = (*shape, 1) if len(shape) == 2 else shape
    if rule == "axis-of-16":
        return ",".join("true" if size == 16 else "false" for size in solid)
    return ",".join(["true" if min(solid) >= 4 else "false"] * 3)


def boxes(volume: int, edge: int, longest: int) -> Iterator[Shape]:
    """All shapes A <= B <= C of `volume` chips with sides that are multiples of `edge`, up to `longest`."""
    cubes, rest = divmod(volume, edge**3)
    if rest:
        return
    for a in range(1, cubes + 1):
        if a**3 > cubes:
            return
        for b in range(a, cubes // a + 1):
            if b * b > cubes // a:
                break
            if cubes % (a * b) == 0 and edge * cubes // (a * b) <= longest:
                yield (edge * a, edge * b, edge * cubes // (a * b))


def volume(shape: Shape) -> int:
    """Chips in the shape."""
    return prod(shape)
