"""What a type turns out to be: one accelerator on one platform, as injection needs it. Pure."""

from typing import final

from webhook.plain import Plain
from webhook.value import Value

Selector = tuple[tuple[str, tuple[str, ...]], ...]
"""Node labels, each with the values of which one will do."""


class Slice(Value, frozen=True):
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


@final
class Accelerator(Plain):
    """One resolved type on one platform: everything that injection needs to know of the hardware."""

    FIELDS = (
        *("name", "family", "resource", "count", "most", "hosts", "selector", "tolerations", "annotations"),
        *("extras", "slice", "per_host_choices", "pinned"),
    )

    def __init__(
        self,
        name: str,
        family: str,
        resource: str,
        count: int | None,
        most: int | None,
        *,
        hosts: int = 1,
        selector: Selector = (),
        tolerations: tuple[str, ...] = (),
        annotations: tuple[tuple[str, str], ...] = (),
        extras: tuple[tuple[str, int], ...] = (),
        slice: Slice | None = None,
        per_host_choices: tuple[int, ...] = (),
        pinned: bool = True,
    ) -> None:
        self.name = name  # canonical: "tpu-v4-16", "nvidia-h100-80gb"
        self.family = family  # "tpu", "nvidia", "amd", "intel", "gaudi", "neuron"
        self.resource = resource  # "google.com/tpu"
        self.count = count  # devices of one pod, where the type fixes it (TPU, AWS instance); None: the user's
        self.most = most  # the most devices that one node has; None: not known
        self.hosts = hosts  # pods that the type needs (a legacy TPU Node slice: 1, whatever its slice has)
        self.selector = selector  # label, values (one: nodeSelector; several: affinity In)
        self.tolerations = tolerations  # taint keys
        self.annotations = annotations  # on the pod (legacy TPU Node: the TensorFlow version)
        self.extras = extras  # other resources that come with it, per pod (EFA devices)
        self.slice = slice  # TPUs only (legacy TPU Node resources too)
        self.per_host_choices = per_host_choices  # chips per host of this shape's other forms (v5e-8, v6e-8: 4)
        self.pinned = pinned  # False: a model for which no node label of this platform is known
