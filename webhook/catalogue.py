"""The catalogue: what an accelerator's name means in hardware. Pure: parses bytes, looks up, computes."""

import difflib
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

import msgspec

from webhook import document, topology
from webhook.entry import AnyEntry, Platform, Tpu
from webhook.messages import Denied
from webhook.topology import Shape

ACCELERATOR_LABEL = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY_LABEL = "cloud.google.com/gke-tpu-topology"
TPU_RESOURCE = "google.com/tpu"
LEGACY_ANNOTATION = "tf-version.cloud-tpus.google.com"

FIRST_PORT = 8431
"""The first of TPU_RUNTIME_METRICS_PORTS.

Source: https://github.com/ai-on-gke/tpu-device-plugin/blob/4626a9f4/pkg/tpu/util/util.go
"""

REMEMBERED = 4096
"""Resolved names that are kept. Users choose names, so what is kept has a bound."""

LISTED = 8
"""Names or topologies that one denial lists."""


class Slice(msgspec.Struct, frozen=True):
    """The shape of one TPU slice. Bounds and wrap are spelled as libtpu reads them ("2,2,1")."""

    generation: str  # "v4", "v5litepod", "tpu7x"
    accelerator_type: str  # TPU_ACCELERATOR_TYPE, "<generation>-<number>": "v4-16"
    topology: str  # "2x2x2"
    chips: int  # of the whole slice
    chips_per_host: int
    hosts: int
    chips_per_host_bounds: str
    host_bounds: str
    wrap: str
    ports: tuple[int, ...]  # TPU_RUNTIME_METRICS_PORTS of one host
    multislice: bool  # several slices can form one job over the data-centre network (not v2, v3)
    divisible: bool  # a host's chips may be divided among containers (tpu7x only)


class Accelerator(msgspec.Struct, frozen=True):
    """One resolved type on one platform: everything that injection needs to know of the hardware."""

    name: str  # canonical: "tpu-v4-16", "nvidia-h100-80gb"
    family: str  # "tpu", "nvidia", "amd", "intel", "gaudi", "neuron"
    resource: str  # "google.com/tpu"
    count: (
        int | None
    )  # devices that one pod gets, where the type fixes it (TPU, AWS instance); None: the user's
    most: int | None  # the most devices that one node has; None: not known
    hosts: int = 1  # pods that the type needs (a legacy TPU Node slice: 1, whatever its slice has)
    selector: tuple[
        tuple[str, tuple[str, ...]], ...
    ] = ()  # label, values (one: nodeSelector; several: affinity In)
    tolerations: tuple[str, ...] = ()  # taint keys
    annotations: tuple[tuple[str, str], ...] = ()  # on the pod (legacy TPU Node: the TensorFlow version)
    extras: tuple[tuple[str, int], ...] = ()  # other resources that come with it, per pod (EFA devices)
    slice: Slice | None = None  # TPUs only (legacy TPU Node resources too)
    per_host_choices: tuple[
        int, ...
    ] = ()  # chips per host that this shape also exists with (v5e-8, v6e-8: 4)


class Catalogue:
    """All types that this site knows, on its platform. Only its memory of resolved names changes."""

    def __init__(
        self,
        entries: Iterable[AnyEntry],
        *,
        platform: Platform = "gke",
        auto_mode: bool = False,
        legacy_nodes: bool = False,
        legacy_version: str = "",
    ) -> None:
        self.platform = platform
        self._legacy_nodes = legacy_nodes
        self._legacy_version = legacy_version
        self._entries = {spelling(entry.name): entry for entry in entries}
        self._generations = {s: e for e in self._entries.values() if isinstance(e, Tpu) for s in e.spellings}
        self._names = tuple(name for entry in self._entries.values() for name in self._names_of(entry))
        self._resolved: dict[tuple[str, str | None, int | None], Accelerator] = {}

    @classmethod
    def parse(
        cls,
        files: Iterable[tuple[str, bytes]],
        *,
        platform: Platform = "gke",
        auto_mode: bool = False,
        legacy_nodes: bool = False,
        legacy_version: str = "",
        extra: Iterable[AnyEntry] = (),
        extra_name: str = "extra",
    ) -> "Catalogue":
        """From data files, (name, YAML bytes) each; `extra` entries override by name. Raises `document.BadConfig`."""
        entries = [
            entry for name, data in files for entry in document.decode(data, name, tuple[AnyEntry, ...])
        ]
        return cls(
            (*entries, *extra), platform=platform, legacy_nodes=legacy_nodes, legacy_version=legacy_version
        )

    def resolve(
        self, name: str, topology: str | None = None, chips_per_host: int | None = None
    ) -> Accelerator:
        """The accelerator that `name` means; raises `Denied` with what would be valid.

        `chips_per_host` picks among `per_host_choices`; anything else is the type's own first choice.
        """
        key = (name, topology, chips_per_host)
        found = self._resolved.get(key)
        if found is None:
            found = self._resolve(name, topology, chips_per_host)
            if len(self._resolved) >= REMEMBERED:
                self._resolved.clear()
            self._resolved[key] = found
        return found

    def names(self) -> Iterable[str]:
        """Canonical names of all default types, in the catalogue's order."""
        return self._names

    def any_model(self, resource: str) -> str:
        """The name of the type that a resource alone means: `nvidia-gpu`, `tpu-any`; empty where there is none."""
        return "tpu-any" if resource == TPU_RESOURCE else ""

    def matching(self, pattern: str) -> Iterator[str]:
        """The names that a shell pattern (`nvidia-*`) means."""
        return (name for name in self._names if fnmatchcase(name, pattern))

    def _names_of(self, entry: AnyEntry) -> Iterator[str]:
        return (f"{entry.prefix}-{volume * entry.cores_per_chip}" for volume in default_volumes(entry))

    def _resolve(self, name: str, asked: str | None, chips_per_host: int | None) -> Accelerator:
        known = self._generation(name)
        if known is None:
            raise self._unknown(name)
        generation, size = known
        shape = self._shape(generation, size, name, asked)
        return self._slice(generation, shape, chips_per_host)

    def _generation(self, name: str) -> tuple[Tpu, str] | None:
        """`tpu-v4-16` as (v4, "16"), `v5p-4x4x8` as (v5p, "4x4x8")."""
        match = _TPU.fullmatch(spelling(name))
        generation = self._generations.get(match["generation"]) if match else None
        return (generation, match["size"]) if match and generation else None

    def _shape(self, generation: Tpu, size: str, name: str, asked: str | None) -> Shape:
        if "x" in size:
            shape = checked_shape(generation, size, "accel.io/type", name)
            volume = topology.volume(shape)
        else:
            volume, rest = divmod(int(size), generation.cores_per_chip)
            shapes = () if rest else possible_shapes(generation, volume)
            if not shapes:
                raise self._no_such_size(generation, int(size), name)
            shape = shapes[0]
            if asked is None and not has_default(generation, volume):
                raise Denied("no-default-topology", value=name, shapes=listed(map(topology.written, shapes)))
        if asked is None:
            return shape
        return self._asked_shape(generation, volume, asked.strip().lower())

    def _asked_shape(self, generation: Tpu, volume: int, asked: str) -> Shape:
        shape = checked_shape(generation, asked, "accel.io/topology", asked)
        if topology.volume(shape) == volume:
            return shape
        raise Denied(
            "topology-mismatch",
            value=asked,
            chips=topology.volume(shape),
            wanted=volume,
            shapes=listed(map(topology.written, possible_shapes(generation, volume))),
        )

    def _slice(self, generation: Tpu, shape: Shape, wanted: int | None) -> Accelerator:
        choices = generation.other_hosts.get(topology.written(shape), (generation.chips_per_host,))
        per_host = wanted if wanted in choices else choices[0]
        figures = slice_of(generation, shape, per_host)
        if generation.legacy_only or (self._legacy_nodes and generation.legacy_resource):
            return self._legacy(generation, figures)
        return Accelerator(
            name=canonical(generation, shape),
            family="tpu",
            resource=TPU_RESOURCE,
            count=per_host,
            most=per_host,
            hosts=figures.hosts,
            selector=() if self.platform == "none" else _labels(generation, figures),
            tolerations=generation.tolerations,
            slice=figures,
            per_host_choices=tuple(choice for choice in choices if choice != per_host),
        )

    def _legacy(self, generation: Tpu, figures: Slice) -> Accelerator:
        """One pod has the whole slice, counts TensorCores, and runs on any node."""
        cores = figures.chips * generation.cores_per_chip
        return Accelerator(
            name=f"{generation.prefix}-{cores}",
            family="tpu",
            resource=generation.legacy_resource,
            count=cores,
            most=cores,
            annotations=((LEGACY_ANNOTATION, self._legacy_version),) if self._legacy_version else (),
            slice=figures,
        )

    def _no_such_size(self, generation: Tpu, size: int, name: str) -> Denied:
        """The sizes of the same generation around the one that was asked for."""
        sizes = [volume * generation.cores_per_chip for volume in default_volumes(generation)]
        near = sorted(sizes, key=lambda n: abs(n - size))[:3]
        return Denied("unknown-type", value=name, nearest=", ".join(f"{generation.prefix}-{n}" for n in near))

    def _unknown(self, name: str) -> Denied:
        near = difflib.get_close_matches(spelling(name)[:64], self._names, n=3, cutoff=0.5)
        return Denied(
            "unknown-type", value=name, nearest=", ".join(near) or "none; `accel catalogue` lists all"
        )


_TPU = re.compile(r"(?:tpu-)?(?P<generation>[a-z0-9]+)-(?P<size>[1-9]\d{0,6}|[1-9]\d*(?:x[1-9]\d*)+)")


def spelling(name: str) -> str:
    """How names are compared: without regard to case, and `_` is `-` (`tpu_v3_8`)."""
    return name.lower().replace("_", "-")


def default_volumes(generation: Tpu) -> Iterator[int]:
    """Chips of every size that has a default topology, ascending."""
    for text in generation.shapes:
        yield topology.volume(topology.parse(text) or ())
    if generation.cubes:
        cubes = generation.cubes
        for count in sorted({*range(1, cubes.defaults_up_to + 1), *cubes.defaults}):
            if any(topology.boxes(count * cubes.edge**3, cubes.edge, cubes.longest)):
                yield count * cubes.edge**3


def has_default(generation: Tpu, volume: int) -> bool:
    """Whether the size of `volume` chips has a default topology."""
    return volume in default_volumes(generation)


def possible_shapes(generation: Tpu, volume: int) -> tuple[Shape, ...]:
    """Every shape of `volume` chips that the generation can have, the most compact first."""
    listed = [shape for shape in map(topology.parse, generation.shapes) if shape]
    found = {shape for shape in listed if topology.volume(shape) == volume}
    cubes = generation.cubes
    if cubes and volume <= cubes.most * cubes.edge**3:
        found.update(topology.boxes(volume, cubes.edge, cubes.longest))
    return tuple(sorted(found, key=lambda shape: (sum(shape), shape)))


def checked_shape(generation: Tpu, text: str, where: str, value: str) -> Shape:
    """The shape that `text` means, if the generation can have it; else `Denied` about the field `where`."""
    shape = topology.parse(text)
    if shape is None or len(shape) != generation.dimensions:
        example = generation.shapes[-1]
        raise Denied(
            "bad-topology", where=where, value=value, dimensions=generation.dimensions, example=example
        )
    shapes = possible_shapes(generation, topology.volume(shape))
    if shape in shapes:
        return shape
    near = shapes or nearby_shapes(generation, topology.volume(shape))
    raise Denied(
        "impossible-topology",
        where=where,
        value=value,
        generation=generation.name,
        shapes=listed(map(topology.written, near)),
    )


def nearby_shapes(generation: Tpu, volume: int) -> tuple[Shape, ...]:
    """The default topologies of the three sizes nearest to `volume` chips."""
    near = sorted(default_volumes(generation), key=lambda n: abs(n - volume))[:3]
    return tuple(possible_shapes(generation, n)[0] for n in sorted(near))


def canonical(generation: Tpu, shape: Shape) -> str:
    """`tpu-v5p-1024` for a default topology, else `tpu-v5p-4x8x16`."""
    volume = topology.volume(shape)
    if has_default(generation, volume) and possible_shapes(generation, volume)[0] == shape:
        return f"{generation.prefix}-{volume * generation.cores_per_chip}"
    return f"{generation.prefix}-{topology.written(shape)}"


def slice_of(generation: Tpu, shape: Shape, per_host: int) -> Slice:
    """Everything that libtpu wants to know of a slice."""
    chips = topology.volume(shape)
    grid = topology.host_bounds(shape, per_host)
    if grid is None:
        raise ValueError(
            f"{generation.name}: hosts of {per_host} chips do not tile {topology.written(shape)}"
        )
    return Slice(
        generation=generation.name,
        accelerator_type=f"{generation.name}-{chips * generation.cores_per_chip}",
        topology=topology.written(shape),
        chips=chips,
        chips_per_host=per_host,
        hosts=topology.volume(grid),
        chips_per_host_bounds=topology.bounds(topology.HOST_BOUNDS[per_host]),
        host_bounds=topology.bounds(grid),
        wrap=topology.wraps(shape, generation.wrap),
        ports=tuple(range(FIRST_PORT, FIRST_PORT + per_host * generation.ports_per_chip)),
        multislice=generation.multislice,
        divisible=generation.divisible,
    )


def _labels(generation: Tpu, figures: Slice) -> tuple[tuple[str, tuple[str, ...]], ...]:
    single = generation.single_host_label if figures.hosts == 1 else ""
    return (ACCELERATOR_LABEL, (single or generation.label,)), (TOPOLOGY_LABEL, (figures.topology,))


def listed(names: Iterable[str]) -> str:
    """A few of `names` for a sentence, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - LISTED} more" if len(every) > LISTED else ""
    return ", ".join(every[:LISTED]) + more
