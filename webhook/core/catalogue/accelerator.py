"""What a type means: one accelerator on one platform, as injection needs it. Pure."""

from dataclasses import KW_ONLY, dataclass
from typing import final

Selector = tuple[tuple[str, tuple[str, ...]], ...]
"""Node labels, each with its acceptable values."""


def toleration(taint: str) -> dict[str, str]:
    """What tolerates a taint of the catalogue: any with that key, or `KEY=VALUE:EFFECT` alone."""
    key, exact, rest = taint.partition("=")
    if not exact:
        return {"key": key, "operator": "Exists"}
    value, _, effect = rest.partition(":")
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}


@final
@dataclass(frozen=True)
class Slice:
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
    resilient: bool  # survives a broken link between chips: ENABLE_ICI_RESILIENCY
    ports: tuple[int, ...]  # TPU_RUNTIME_METRICS_PORTS of one host
    multislice: bool  # several slices can form one job over the data-centre network (not v2, v3)
    divisible: bool  # a host's chips may be divided among containers (tpu7x only)


@final
@dataclass(frozen=True)
class Accelerator:
    """One resolved type on one platform: everything that injection needs to know about the hardware."""

    name: str  # canonical: "tpu-v4-16", "nvidia-h100-80gb"
    family: str  # "tpu", "nvidia", "amd", "intel", "gaudi", "neuron"
    resource: str  # "google.com/tpu"
    count: int | None  # devices of one Pod, if the type fixes it (TPU, AWS instance); None: the user decides
    max_per_node: int | None  # maximum number of devices in one node; None: unknown
    _: KW_ONLY
    hosts: int = 1  # Pods that the type needs (a legacy TPU Node slice: 1, whatever its slice has)
    selector: Selector = ()  # label, values (one: nodeSelector; several: affinity In)
    tolerations: tuple[str, ...] = ()  # taints: KEY, or KEY=VALUE:EFFECT
    annotations: tuple[tuple[str, str], ...] = ()  # on the Pod (legacy TPU Node: the TensorFlow version)
    extras: tuple[tuple[str, int], ...] = ()  # other resources that come with it, per Pod (EFA devices)
    slice: Slice | None = None  # TPUs only (legacy TPU Node resources too)
    per_host_choices: tuple[int, ...] = ()  # chips per host of this shape's other forms (v5e-8, v6e-8: 4)
    form: str = ""  # what of the site config changed the labels, for people: "gfd.mig: single"
    pinned: bool = True  # False: a model without a known node label on this platform
