"""One entry of the catalogue as it is written in `data/*.yaml` and in the site config's `catalogue:`.

These Structs are the schema: an unknown key is an error. They hold facts, and decide nothing.
"""

from typing import Literal

import msgspec

from webhook import topology

Platform = Literal["gke", "eks", "aks", "gfd", "none"]
"""Whose node labels and taints a cluster has: a cloud's, or only those of NVIDIA's GPU feature discovery."""


class Entry(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", tag_field="kind"
):
    """What every entry has."""

    name: str
    """What the entry describes, and what a later entry of the same name replaces."""


class Cubes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The slices of one generation that are built from whole cubes."""

    most: int
    """The most cubes in one slice."""
    longest: int
    """The longest side, in chips."""
    edge: int = 4
    """A cube's side, in chips; every side of a large slice is a multiple of it."""
    defaults_up_to: int = 0
    """Every size up to this number of cubes has a default topology: the most compact one."""
    defaults: tuple[int, ...] = ()
    """Other numbers of cubes that have a default topology."""


class Tpu(Entry, frozen=True, kw_only=True, tag="tpu"):
    """A TPU generation. `name` is libtpu's word for it, as in TPU_ACCELERATOR_TYPE: `v5litepod`."""

    prefix: str
    """Canonical type names are `<prefix>-<number>` and `<prefix>-<shape>`."""
    spellings: tuple[str, ...]
    """What people write before the number, with or without `tpu-`."""
    cores_per_chip: int
    """TensorCores in one chip. The number in a type's name counts TensorCores."""
    dimensions: Literal[2, 3]
    """Axes of a topology."""
    shapes: tuple[str, ...]
    """Slices smaller than a cube, or all slices where there are no cubes; each is its size's default topology."""
    wrap: Literal["all-from-4", "axis-of-16"]
    """Which axes close into a ring: all of them once every side is 4 or more, or each one of exactly 16."""
    cubes: Cubes | None = None
    """Larger slices, by rule."""
    chips_per_host: int = 4
    """Chips in one machine of a slice."""
    other_hosts: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """Shapes whose machines have another number of chips, first choice first."""
    label: str = ""
    """Value of the node label cloud.google.com/gke-tpu-accelerator."""
    single_host_label: str = ""
    """That label's value where a slice is one machine, if it differs."""
    ports_per_chip: int = 1
    """Runtime metrics ports of one chip."""
    multislice: bool = True
    """Several slices can form one job over the data-centre network."""
    divisible: bool = False
    """A machine's chips may be divided among containers."""
    legacy_resource: str = ""
    """The resource of the old TPU Node architecture; its quantity is TensorCores."""
    legacy_only: bool = False
    """No machine with chips of its own exists: always the legacy resource."""
    tolerations: tuple[str, ...] = ("google.com/tpu",)
    """Keys of the taints on its nodes."""

    def __post_init__(self) -> None:
        for text in (*self.shapes, *self.other_hosts):
            shape = topology.parse(text)
            if shape is None or len(shape) != self.dimensions:
                raise ValueError(f"{self.name}: {text} is not a topology of {self.dimensions} sizes")
        for count in (self.chips_per_host, *(n for hosts in self.other_hosts.values() for n in hosts)):
            if count not in topology.HOST_BOUNDS:
                raise ValueError(f"{self.name}: a host of {count} chips has no known layout")
        for text in self.shapes:
            self._tiles(text)

    def _tiles(self, text: str) -> None:
        shape = topology.parse(text)
        for count in self.other_hosts.get(text, (self.chips_per_host,)):
            if shape and topology.host_bounds(shape, count) is None:
                raise ValueError(f"{self.name}: hosts of {count} chips do not tile {text}")


AnyEntry = Tpu
