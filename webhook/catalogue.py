"""The catalogue: what an accelerator's name means in hardware. Pure: parses bytes, looks up, computes."""

from collections.abc import Iterable

import msgspec


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
    count: int | None  # devices that one pod gets, where the type fixes it (TPU, AWS instance); None: the user's
    most: int | None  # the most devices that one node has; None: not known
    hosts: int = 1
    selector: tuple[tuple[str, tuple[str, ...]], ...] = ()  # label, values (one: nodeSelector; several: affinity In)
    tolerations: tuple[str, ...] = ()  # taint keys
    annotations: tuple[tuple[str, str], ...] = ()  # on the pod (legacy TPU Node: the TensorFlow version)
    extras: tuple[tuple[str, int], ...] = ()  # other resources that come with it, per pod (EFA devices)
    slice: Slice | None = None  # TPUs only (legacy TPU Node resources too)
    per_host_choices: tuple[int, ...] = ()  # chips per host that this shape also exists with (v5e-8, v6e-8: 4)


class Catalogue:
    """All types that this site knows, on its platform."""

    def resolve(self, name: str, topology: str | None = None, chips_per_host: int | None = None) -> Accelerator:
        """The accelerator that `name` means; raises `Denied` with what would be valid.

        `chips_per_host` picks among `per_host_choices`; anything else is the type's own first choice.
        """
        raise NotImplementedError

    def names(self) -> Iterable[str]:
        """Canonical names of all default types, in the catalogue's order."""
        raise NotImplementedError
