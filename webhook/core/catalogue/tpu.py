"""The sizes, topologies and names of a TPU generation, computed from its entry. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final

from webhook.core import topology
from webhook.core.messages import Denied
from webhook.core.schema.catalogue import Tpu
from webhook.core.topology import Shape

LISTED = 8
"""Names or topologies that one denial lists."""


def default_volumes(rules: Tpu) -> Iterator[int]:
    """Chips of every size that has a default topology, ascending."""
    for text in rules.shapes:
        yield topology.volume(topology.parse(text) or ())
    if rules.cubes:
        counts = sorted({*range(1, rules.cubes.defaults_up_to + 1), *rules.cubes.defaults})
        cube = rules.cubes.edge**3
        yield from (count * cube for count in counts if has_default(rules, count * cube))


def has_default(rules: Tpu, volume: int) -> bool:
    """Whether the size of `volume` chips has a default topology."""
    if any(topology.volume(topology.parse(text) or ()) == volume for text in rules.shapes):
        return True
    cubes = rules.cubes
    count, rest = divmod(volume, cubes.edge**3) if cubes else (0, 1)
    if cubes is None or rest or not (count <= cubes.defaults_up_to or count in cubes.defaults):
        return False
    # A prime number of cubes is a single row, which may be too long.
    return any(topology.boxes(volume, cubes.edge, cubes.longest))


def possible_shapes(rules: Tpu, volume: int) -> tuple[Shape, ...]:
    """Every possible shape of `volume` chips in the generation, the most compact first."""
    listed = [shape for shape in map(topology.parse, rules.shapes) if shape]
    found = {shape for shape in listed if topology.volume(shape) == volume}
    cubes = rules.cubes
    if cubes and volume <= cubes.most * cubes.edge**3:
        found.update(topology.boxes(volume, cubes.edge, cubes.longest))
    return tuple(sorted(found, key=lambda shape: (sum(shape), shape)))


TOPOLOGY: Final = "accel.io/topology"
"""Where a topology is requested, unless stated otherwise."""


def wanted_shape(rules: Tpu, size: str, name: str, asked: str | None, where: str = TOPOLOGY) -> Shape:
    """The shape that a type's name (`size` is its end: "16" or "2x2x2") and the topology at `where` mean together."""
    if "x" in size:
        shape = checked_shape(rules, size, "accel.io/type", name)
    else:
        shape = _shape_of_number(rules, int(size), name, asked is not None)
    if asked is None:
        return shape
    return _asked_shape(rules, topology.volume(shape), asked.strip().lower(), where)


def _shape_of_number(rules: Tpu, cores: int, name: str, asked: bool) -> Shape:
    """The default topology; if there is none, any shape of that volume, if a topology is requested."""
    chips, rest = divmod(cores, rules.cores_per_chip)
    shapes = () if rest else possible_shapes(rules, chips)
    if not shapes:
        raise no_such_size(rules, cores, name)
    if not asked and not has_default(rules, chips):
        raise Denied("no-default-topology", value=name, shapes=listed(map(topology.written, shapes)))
    return shapes[0]


def _asked_shape(rules: Tpu, chips: int, asked: str, where: str) -> Shape:
    shape = checked_shape(rules, asked, where, asked)
    if topology.volume(shape) == chips:
        return shape
    raise Denied(
        "topology-mismatch",
        where=where,
        value=asked,
        chips=topology.volume(shape),
        wanted=chips,
        shapes=listed(map(topology.written, possible_shapes(rules, chips))),
    )


def no_such_size(rules: Tpu, cores: int, name: str) -> Denied:
    """Names the generation's sizes around the requested one."""
    sizes = [chips * rules.cores_per_chip for chips in default_volumes(rules)]
    near = sorted(sizes, key=lambda n: abs(n - cores))[:3]
    return Denied("unknown-type", value=name, nearest=", ".join(f"{rules.prefix}-{n}" for n in near))


def nearby_shapes(rules: Tpu, volume: int) -> tuple[Shape, ...]:
    """The default topologies of the three sizes nearest to `volume` chips."""
    near = sorted(default_volumes(rules), key=lambda n: abs(n - volume))[:3]
    return tuple(possible_shapes(rules, n)[0] for n in sorted(near))


def checked_shape(rules: Tpu, text: str, where: str, value: str) -> Shape:
    """The shape that `text` means, if possible in the generation; else `Denied` about the field `where`."""
    shape = topology.parse(text)
    if shape is None or len(shape) != rules.dimensions:
        example = rules.shapes[-1]
        raise Denied("bad-topology", where=where, value=value, dimensions=rules.dimensions, example=example)
    shapes = possible_shapes(rules, topology.volume(shape))
    if shape in shapes:
        return shape
    near = shapes or nearby_shapes(rules, topology.volume(shape))
    raise Denied(
        "impossible-topology",
        where=where,
        value=value,
        generation=rules.name,
        shapes=listed(map(topology.written, near)),
    )


def canonical_name(rules: Tpu, shape: Shape) -> str:
    """`tpu-v5p-1024` for a default topology, else `tpu-v5p-4x8x16`."""
    volume = topology.volume(shape)
    if has_default(rules, volume) and possible_shapes(rules, volume)[0] == shape:
        return f"{rules.prefix}-{volume * rules.cores_per_chip}"
    return f"{rules.prefix}-{topology.written(shape)}"


def listed(names: Iterable[str]) -> str:
    """A few of `names` for a message, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - LISTED} more" if len(every) > LISTED else ""
    return ", ".join(every[:LISTED]) + more
