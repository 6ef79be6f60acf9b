"""One entry of the catalogue as written in `data/*.yaml` and in the site config's `catalogue:`.

These Structs are the schema: an unknown key is an error. They contain facts, and decide nothing.
"""

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from webhook.core import syntax, topology
from webhook.core.messages import quoted

Platform = Literal["gke", "eks", "aks", "gfd", "none"]
"""Whose node labels and taints a cluster has: a cloud's, or only those of NVIDIA's GPU feature discovery."""

Labels = dict[str, str | tuple[str, ...]]
"""Node label to its value, or to several values any of which will do."""

MAX_NUMBER = 65536
"""Devices in one machine, chips along a side: no existing hardware comes close."""

CUBES = 4096
"""Cubes in one slice; the largest available is tpu7x's, of 144.

Source: https://docs.cloud.google.com/tpu/docs/tpu7x
"""

SHAPES = 256
"""Topologies that one entry lists. All are searched whenever one of its types is resolved."""

PER_CHIP = 16
"""TensorCores, or ports, of one chip; there are at most 2."""

LONGEST_NAME = 60
"""Characters of a name."""

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
"""Of a taint."""

_SPELLING = re.compile(r"[a-z0-9]++")
_NAME = re.compile(r"[a-z0-9]++(?:[-._]++[a-z0-9]++)*+")


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", tag_field="kind"):
    """The fields of every entry."""

    name: str
    """What the entry describes, and what a later entry of the same name replaces."""

    def __post_init__(self) -> None:
        if len(self.name) > LONGEST_NAME or not _NAME.fullmatch(self.name):
            raise ValueError(f'name: {quoted(self.name)} is not a name: lower-case letters, digits, "-", "." and "_"')


class Cubes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The slices of one generation that are built from whole cubes."""

    most: int
    """Maximum number of cubes in one slice."""
    longest: int
    """The longest side, in chips."""
    edge: int = 4
    """A cube's side, in chips; every side of a large slice is a multiple of it."""
    defaults_up_to: int = 0
    """Every size up to this number of cubes has a default topology: the most compact one."""
    defaults: tuple[int, ...] = ()
    """Other numbers of cubes that have a default topology."""

    def __post_init__(self) -> None:
        if not 1 <= self.most <= CUBES:
            raise ValueError(f"most: found {self.most}; valid: 1 to {CUBES}")
        if min(self.longest, self.edge) < 1 or max(self.longest, self.edge) > MAX_NUMBER:
            raise ValueError(f"longest: this and edge are numbers from 1 to {MAX_NUMBER}")
        if not 0 <= self.defaults_up_to <= self.most or any(not 1 <= count <= self.most for count in self.defaults):
            raise ValueError(f"defaults: these and defaultsUpTo are numbers of cubes, up to {self.most}")


class Tpu(Entry, frozen=True, kw_only=True, tag="tpu"):
    """A TPU generation. `name` is libtpu's name for it, as in TPU_ACCELERATOR_TYPE: `v5litepod`."""

    prefix: str
    """Canonical type names are `<prefix>-<number>` and `<prefix>-<shape>`."""
    spellings: tuple[str, ...]
    """What people write before the number, with or without `tpu-`."""
    cores_per_chip: int
    """TensorCores in one chip. The number in a type's name counts TensorCores."""
    dimensions: Literal[2, 3]
    """Axes of a topology."""
    shapes: tuple[str, ...]
    """Slices smaller than a cube, or all slices if there are no cubes; each is the default topology of its size."""
    wrap: Literal["all-from-4", "axis-of-16"]
    """Which axes wrap around: all once every side is 4 or more, or each one of exactly 16."""
    cubes: Cubes | None = None
    """Larger slices, defined by a rule."""
    chips_per_host: int = 4
    """Chips in one machine of a slice."""
    other_hosts: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """Shapes whose machines have a different number of chips, in order of preference."""
    label: str = ""
    """Value of the node label cloud.google.com/gke-tpu-accelerator."""
    single_host_label: str = ""
    """That label's value if a slice is one machine, if it differs."""
    ici_resiliency: bool = False
    """Slices of whole cubes survive a broken link between chips: ENABLE_ICI_RESILIENCY."""
    ports_per_chip: int = 1
    """Runtime metrics ports per chip."""
    multislice: bool = True
    """Several slices can form one job over the data-centre network."""
    divisible: bool = False
    """A machine's chips may be divided among containers."""
    legacy_resource: str = ""
    """The resource of the old TPU Node architecture; its quantity is TensorCores."""
    legacy_only: bool = False
    """No machine with its own chips exists: always the legacy resource."""
    tolerations: tuple[str, ...] = ("google.com/tpu",)
    """The taints of its nodes to tolerate: `KEY` matches any taint with that key, `KEY=VALUE:EFFECT` only that one."""
    other_resources: tuple[str, ...] = ()
    """Other resources that request TPUs; a trailing `*` matches anything."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.shapes) <= SHAPES:
            raise ValueError(f"shapes: found {len(self.shapes)} topologies; valid: 1 to {SHAPES}")
        if not (1 <= self.cores_per_chip <= PER_CHIP and 1 <= self.ports_per_chip <= PER_CHIP):
            raise ValueError(f"coresPerChip: this and portsPerChip must be numbers from 1 to {PER_CHIP}")
        for text in (*self.shapes, *self.other_hosts):
            shape = topology.parse(text)
            if shape is None or len(shape) != self.dimensions:
                raise ValueError(f"shapes: {quoted(text)} is not a topology with {self.dimensions} dimensions")
            self._check_hosts(text, shape)
        if self.cubes and self.dimensions != 3:
            raise ValueError("cubes: a generation with cubes has 3 dimensions")
        if self.cubes:
            self._check_hosts("a cube", (self.cubes.edge,) * 3)
        if self.prefix.removeprefix("tpu-") not in self.spellings:
            raise ValueError(f"prefix: {quoted(self.prefix)} is not one of the spellings, with or without tpu-")
        for spelling in self.spellings:
            if not _SPELLING.fullmatch(spelling):
                raise ValueError(f"spellings: {quoted(spelling)} must be lower-case letters and digits")
        syntax.check_value(self.label, "label")
        syntax.check_value(self.single_host_label, "singleHostLabel")
        for taint in self.tolerations:
            _check_taint(taint, "tolerations")
        check_resources(self.other_resources)

    def _check_hosts(self, text: str, shape: topology.Shape) -> None:
        """Every number of chips per host that is allowed for the shape must tile it."""
        counts = self.other_hosts.get(text, (self.chips_per_host,))
        if not counts:
            raise ValueError(f"otherHosts: {text} lists no number of chips")
        for count in counts:
            if count not in topology.HOST_BOUNDS:
                raise ValueError(f"chipsPerHost: a host of {count} chips has no known layout")
            if topology.host_bounds(shape, count) is None:
                raise ValueError(f"chipsPerHost: hosts of {count} chips do not tile {text}")


class Mig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """How partitions of a GPU are requested."""

    prefix: str
    """The type name of a partition of any model is `<prefix><profile>`."""
    resource: str
    """The resource of a partition is this followed by the profile."""
    labels: dict[Platform, str] = msgspec.field(default_factory=dict)
    """Platforms where a partition is an ordinary device on a labelled node: the label, whose value is the profile."""


class Devices(Entry, frozen=True, kw_only=True, tag="devices"):
    """Devices of a vendor, whatever the model: a type by itself, and the base of models and instances."""

    family: str
    """A short name of the vendor or product line, for programs to branch on."""
    resource: str
    """The resource that containers request."""
    tolerations: tuple[str, ...] = ()
    """The taints of its nodes to tolerate: `KEY` matches any taint with that key, `KEY=VALUE:EFFECT` only that one."""
    platform_tolerations: dict[Platform, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Additional taints to tolerate, by platform."""
    other_resources: tuple[str, ...] = ()
    """Other resources that request the vendor's devices, partitioned or shared; a trailing `*` matches anything."""
    other_annotations: tuple[str, ...] = ()
    """Pod annotations that request them."""
    mig: Mig | None = None
    """Set if devices can be partitioned."""

    def __post_init__(self) -> None:
        super().__post_init__()
        syntax.check_key(self.resource, "resource")
        for taint in self.tolerations:
            _check_taint(taint, "tolerations")
        for taints in self.platform_tolerations.values():
            for taint in taints:
                _check_taint(taint, "platformTolerations")
        check_resources(self.other_resources)
        for key in self.other_annotations:
            syntax.check_key(key, "otherAnnotations")


class Model(Entry, frozen=True, kw_only=True, tag="model"):
    """One model of such devices; its name includes the memory size if the model has several."""

    of: str
    """The `devices` entry that it belongs to."""
    aliases: tuple[str, ...] = ()
    """Other names that people use for it."""
    select: dict[Platform, Labels] = msgspec.field(default_factory=dict)
    """Node labels of the model. A missing platform has no publicly known label."""
    mig: tuple[str, ...] = ()
    """Profiles of its partitions."""
    most: dict[Platform, int] = msgspec.field(default_factory=dict)
    """Maximum number of devices in one node, if publicly known."""
    platform_tolerations: dict[Platform, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Additional taints of its nodes to tolerate, by platform."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(not 1 <= number <= MAX_NUMBER for number in self.most.values()):
            raise ValueError(f"most: devices in one node must be numbers from 1 to {MAX_NUMBER}")
        for labels in self.select.values():
            for key, values in labels.items():
                syntax.check_key(key, "select")
                for value in several(values):
                    syntax.check_value(value, "select")
        for taints in self.platform_tolerations.values():
            for taint in taints:
                _check_taint(taint, "platformTolerations")


class Instance(Entry, frozen=True, kw_only=True, tag="instance"):
    """A cloud's machine type, with all its devices."""

    of: str
    """The `devices` entry that its devices belong to."""
    instance_type: str
    """Value of the node label node.kubernetes.io/instance-type."""
    count: int
    """The number of its devices."""
    extras: dict[str, int] = msgspec.field(default_factory=dict)
    """Other resources of the machine that a job on it needs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        syntax.check_value(self.instance_type, "instanceType")
        if any(not 1 <= amount <= MAX_NUMBER for amount in (self.count, *self.extras.values())):
            raise ValueError(f"count: this and each of extras must be numbers from 1 to {MAX_NUMBER}")
        for key in self.extras:
            syntax.check_key(key, "extras")


class Ambiguous(Entry, frozen=True, kw_only=True, tag="ambiguous"):
    """A name that people use for several models: refused, with the choices."""

    choices: tuple[str, ...]
    """Names of the models."""


def check_resources(patterns: Iterable[str]) -> None:
    """Raises `ValueError` for a pattern that no resource name could match, or that every name would."""
    for pattern in patterns:
        prefix, star, rest = pattern.partition("*")
        domain, slash, _ = prefix.partition("/")
        if rest or not slash or not domain:
            raise ValueError(f'otherResources: {quoted(pattern)} is not a resource, or its beginning and a "*"')
        syntax.check_key(prefix + "x" if star else prefix, "otherResources")


AnyEntry = Tpu | Devices | Model | Instance | Ambiguous


def _check_taint(text: str, where: str) -> None:
    """`KEY` or `KEY=VALUE:EFFECT`; raises `ValueError` about `where`."""
    key, exact, rest = text.partition("=")
    syntax.check_key(key, where)
    if not exact:
        return
    value, _, effect = rest.rpartition(":")
    syntax.check_value(value, where)
    if effect not in EFFECTS:
        raise ValueError(f"{where}: {quoted(text)} is not KEY or KEY=VALUE:EFFECT with one of {', '.join(EFFECTS)}")


def types(entry: AnyEntry) -> int:
    """The number of type names that an entry defines, at most."""
    if isinstance(entry, Tpu):
        cubes = entry.cubes
        return len(entry.shapes) + (cubes.defaults_up_to + len(cubes.defaults) if cubes else 0)
    return 1 + len(entry.mig) if isinstance(entry, Model) else 1


def several(values: str | Iterable[str]) -> tuple[str, ...]:
    """One value or several, as a tuple."""
    return (values,) if isinstance(values, str) else tuple(values)
