"""The site config as written: what the cluster's admin decides.

`Config` and the Structs in it are the file's schema; the text under each field is its reference documentation.
Annotations only choose among what is defined here: no annotation can name a host path or a privilege.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from webhook.core import quantity, syntax
from webhook.core.messages import quoted
from webhook.core.schema.catalogue import AnyEntry, Platform, types

Mode = Literal["plugin", "host"]

MAX_CLAIM_PATTERNS = 64
"""Patterns of claims: each is matched against every claim of a Pod."""

LONGEST_NAME = 50
"""Characters of a placement's or a profile's name: volume names are derived from it."""

LONGEST_PATTERN = 253
"""Characters of a shell pattern. What it matches is shorter: a namespace has at most 63, a type name 60."""

MAX_PATTERNS = 10_000
"""Shell patterns of a site config. Most of them are matched for each object."""

MAX_TYPES = 50_000
"""Types that a site config adds to the catalogue."""

QUEUE_LABELS: Final = (
    "kai.scheduler/queue",
    "kueue.x-k8s.io/queue-name",
    "quota.scheduling.koordinator.sh/name",
    "yunikorn.apache.org/queue",
    "queue",
)
"""Labels with a queue's name that views decode (`core/schema/pod.py`). Of another label, we could not see whether the
user has set it."""

_ENV_NAME = re.compile(r"[ -<>-~]++")


class _Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A mapping in the site config; an undeclared key is an error."""


class TpuSettings(_Settings, frozen=True, kw_only=True):
    """How TPU Pods are set up on this cluster."""

    environment: Literal["megascale", "full"] = "megascale"
    """`megascale`: only MEGASCALE_* variables, since GKE's device plugin and webhook set the others. `full`: also
    TPU_WORKER_ID, TPU_WORKER_HOSTNAMES, TPU_TOPOLOGY and the rest, for clusters without these two."""
    avoid_metadata_server: bool = True
    """With `full`, a slice that is a job by itself gets MEGASCALE_NUM_SLICES 1, MEGASCALE_SLICE_ID 0 and an empty
    coordinator address: JAX queries a metadata server for what is unset. JAX before 0.6 takes the empty value for
    an address: set this to false there, and give JAX the coordinator's address yourself."""
    node_pool_label: str = ""
    """The node label whose value the hosts of one slice have in common, and no others. Empty: the platform's, on GKE
    `cloud.google.com/gke-nodepool`."""
    legacy_nodes: bool = False
    """v3 types mean the old TPU Node resource (`cloud-tpus.google.com/v3`) instead of `google.com/tpu`."""
    legacy_version: str = ""
    """TensorFlow version for TPU Node resources: the Pod annotation `tf-version.cloud-tpus.google.com`. Empty: no
    annotation."""

    def __post_init__(self) -> None:
        if self.node_pool_label:
            syntax.check_key(self.node_pool_label, "nodePoolLabel")


class EksSettings(_Settings, frozen=True, kw_only=True):
    """What kind of EKS cluster it is."""

    auto_mode: bool = False
    """The nodes belong to EKS Auto Mode, so their labels begin with `eks.amazonaws.com/` instead of Karpenter's
    `karpenter.k8s.aws/`."""


class GfdForm(_Settings, frozen=True, kw_only=True):
    """How the GPUs of one model are divided. Unset keys are taken from `gfd`."""

    mig: Literal["mixed", "single"] | None = None
    """As `gfd.mig`."""
    shared: bool | None = None
    """As `gfd.shared`."""


class GfdSettings(_Settings, frozen=True, kw_only=True):
    """Only with `platform: gfd`: how NVIDIA's device plugin divides GPUs, which changes their product label."""

    mig: Literal["mixed", "single"] = "mixed"
    """The MIG strategy. `mixed`: a partition has a resource of its own. `single`: a partition is an `nvidia.com/gpu`,
    and the product label ends in `-MIG-1g.5gb`."""
    shared: bool = False
    """GPUs are shared by time-slicing or MPS without `renameByDefault`: the product label ends in `-SHARED`."""
    models: dict[str, GfdForm] = msgspec.field(default_factory=dict)
    """The same for individual models, by name."""

    def of(self, model: str) -> tuple[str, bool]:
        """(strategy, shared) of a model."""
        own = self.models.get(model, _AS_ALL)
        return own.mig or self.mig, self.shared if own.shared is None else own.shared

    def written(self, model: str) -> str:
        """The settings that change the label of a model, as written in the file; else empty."""
        mig, shared = self.of(model)
        return ", ".join([*(["gfd.mig: single"] if mig == "single" else []), *(["gfd.shared: true"] if shared else [])])


_AS_ALL: Final = GfdForm()


class SchedulerDefault(_Settings, frozen=True, kw_only=True):
    """A scheduler for Pods that name none. The first entry that matches the type and the namespace applies."""

    types: tuple[str, ...] = ("*",)
    """Type names, or shell patterns, that it applies to."""
    namespaces: tuple[str, ...] = ("*",)
    """Namespaces, or shell patterns, that it applies to."""
    scheduler: str | None = None
    """The scheduler's name, one of `schedulers.allowed`. Default: `schedulerName` is left unset."""
    queue: str | None = None
    """The queue, written where the scheduler reads it (`schedulers.queues`). Default: the scheduler's own."""


class QueueKey(_Settings, frozen=True, kw_only=True):
    """The key from which a scheduler reads the queue of a Pod: either `label` or `annotation`."""

    label: str = ""
    """A label's key, one of those that the webhook knows: `kai.scheduler/queue`, `kueue.x-k8s.io/queue-name`,
    `quota.scheduling.koordinator.sh/name`, `yunikorn.apache.org/queue`, `queue`."""
    annotation: str = ""
    """An annotation's key."""
    where: Literal["pod", "workload"] = "pod"
    """Whose metadata has it: the Pods', or that of the object that the user creates (Kueue)."""

    def __post_init__(self) -> None:
        if bool(self.label) == bool(self.annotation):
            raise ValueError("label: one of label and annotation is needed")
        if self.label and self.label not in QUEUE_LABELS:
            raise ValueError(f"label: found {quoted(self.label)}; valid: {', '.join(QUEUE_LABELS)}, or an annotation")
        if self.annotation:
            syntax.check_key(self.annotation, "annotation")
        if self.annotation.startswith("accel.io/"):
            raise ValueError(f"annotation: {quoted(self.annotation)} is a key that users set, not schedulers")


QUEUES: Final[dict[str, QueueKey]] = {
    "volcano": QueueKey(annotation="scheduling.volcano.sh/queue-name"),
    "kai-scheduler": QueueKey(label="kai.scheduler/queue"),
    "yunikorn": QueueKey(label="yunikorn.apache.org/queue"),
    "koord-scheduler": QueueKey(label="quota.scheduling.koordinator.sh/name"),
}
"""The known schedulers that have queues.

Sources: https://github.com/volcano-sh/apis/blob/v1.14.0/pkg/apis/scheduling/v1beta1/labels.go
https://github.com/kai-scheduler/KAI-Scheduler/blob/main/docs/queues/README.md
https://yunikorn.apache.org/docs/user_guide/labels_and_annotations_in_yunikorn/
https://koordinator.sh/docs/user-manuals/multi-hierarchy-elastic-quota-management/
"""


class Schedulers(_Settings, frozen=True, kw_only=True):
    """Which schedulers users may choose, and which are chosen for them."""

    allowed: tuple[str, ...] = ("default-scheduler", "volcano")
    """Values that `accel.io/scheduler` may have."""
    defaults: tuple[SchedulerDefault, ...] = ()
    """Schedulers for Pods without `accel.io/scheduler`."""
    queues: dict[str, QueueKey] = msgspec.field(default_factory=dict)
    """Where a scheduler reads the queue that `accel.io/queue` names, by the scheduler's name. `volcano`,
    `kai-scheduler`, `yunikorn` and `koord-scheduler` are built in. Kueue is not a scheduler:
    `default-scheduler: {label: kueue.x-k8s.io/queue-name, where: workload}`."""

    def __post_init__(self) -> None:
        allowed, queues = frozenset(self.allowed), {**QUEUES, **self.queues}
        if any(not name or len(name) > LONGEST_PATTERN for name in self.queues):
            raise ValueError(f"queues: a scheduler's name has 1 to {LONGEST_PATTERN} characters")
        for default in self.defaults:
            if default.scheduler and default.scheduler not in allowed:
                raise ValueError(
                    f'defaults: scheduler "{default.scheduler}" is not allowed; valid: {", ".join(self.allowed)}'
                )
            if default.queue and default.scheduler and default.scheduler not in queues:
                raise ValueError(
                    f'defaults: queue "{default.queue}" needs a scheduler with queues ({", ".join(queues)}), '
                    f"not {default.scheduler}"
                )


class Toleration(_Settings, frozen=True, kw_only=True, omit_defaults=True):
    """A toleration as Kubernetes has it."""

    key: str = ""
    """Taint key. Empty: every key, with operator Exists."""
    operator: Literal["Exists", "Equal", "Lt", "Gt"] = "Equal"
    """How the taint's value is compared."""
    value: str = ""
    """Taint value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", ""] = ""
    """Taint effect. Empty: every effect."""
    toleration_seconds: int | None = None
    """For NoExecute: how long the Pod stays on the node."""

    def __post_init__(self) -> None:
        if not self.key and self.operator != "Exists":
            raise ValueError("operator: a toleration without a key needs Exists")
        if self.operator == "Exists" and self.value:
            raise ValueError(f"value: found {quoted(self.value)}; with operator Exists there is none")
        if self.key:
            syntax.check_key(self.key, "key")


class Placement(_Settings, frozen=True, kw_only=True):
    """One set that `accel.io/placement` can name: spot nodes, a reservation, a node pool, network interfaces."""

    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    """Node labels that the Pod needs."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations added to the Pod's."""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    """Annotations on the Pod."""
    resources: dict[str, str | int] = msgspec.field(default_factory=dict)
    """Resources for each container with devices, as both requests and limits."""
    runtime_class_name: str = ""
    """The RuntimeClass of Pods that name none: `nvidia`, if that runtime is not containerd's default. Of several
    placements the first that has one applies."""
    namespaces: tuple[str, ...] = ("*",)
    """Namespaces, or shell patterns, that may use it."""

    def __post_init__(self) -> None:
        for key, value in self.node_selector.items():
            syntax.check_key(key, "nodeSelector")
            syntax.check_value(value, f"nodeSelector: {key}")
        for key in self.annotations:
            syntax.check_key(key, "annotations")
            if key.startswith("accel.io/"):
                raise ValueError(f"annotations: {quoted(key)} is a key that users set, not placements")
        for key, amount in self.resources.items():
            syntax.check_key(key, "resources")
            if not quantity.is_positive(amount):
                raise ValueError(f"resources: {key}: {quoted(amount)} is not a quantity, such as 32 or 64Gi")
        _check_runtime_class(self.runtime_class_name)


class Device(_Settings, frozen=True, kw_only=True):
    """A device file on the node."""

    path: str
    """Its path; with `perDevice`, the part before the number."""
    per_device: bool = False
    """One file for each device, numbered from 0: /dev/nvidia0, /dev/nvidia1, ..."""

    def __post_init__(self) -> None:
        _check_path("path", self.path)


class Library(_Settings, frozen=True, kw_only=True):
    """A directory or file of the node, mounted read-only."""

    host_path: str
    """Where it is on the node."""
    mount_path: str
    """Where it is in the container."""

    def __post_init__(self) -> None:
        _check_path("hostPath", self.host_path)
        _check_path("mountPath", self.mount_path)
        if ":" in self.mount_path:
            raise ValueError(f'mountPath: {quoted(self.mount_path)} has a ":", which Kubernetes refuses')


class HostProfile(_Settings, frozen=True, kw_only=True):
    """What a container needs from its node: devices if there is no device plugin, driver libraries, variables."""

    types: tuple[str, ...] = ()
    """Type names, or shell patterns, that use it."""
    modes: tuple[Mode, ...] = ("host",)
    """`host`: for Pods with `accel.io/mode: host`. `plugin`: in addition to the device plugin, without devices."""
    namespaces: tuple[str, ...] = ()
    """Namespaces, or shell patterns, that may use it. Default: none."""
    devices: tuple[str | Device, ...] = ()
    """Device files that every node of these types has. A Pod does not start if one is missing."""
    optional_devices: tuple[str | Device, ...] = ()
    """Device files that some nodes lack. They are not checked: on a node without one, the container runtime creates an
    empty directory in its place. A privileged container has them anyway, and gets no mount."""
    libraries: tuple[Library, ...] = ()
    """Directories or files of the node, mounted read-only."""
    env: dict[str, str] = msgspec.field(default_factory=dict)
    """Environment variables of the containers. LD_LIBRARY_PATH is prepended to the user's own value."""
    runtime_class_name: str = ""
    """The RuntimeClass of Pods that name none, in either mode: `nvidia`, if that runtime is not containerd's
    default (k3s, RKE2). A placement's takes precedence."""
    privileged: bool = False
    """Containers run privileged. Without it a device file can usually be seen but not opened."""
    exclusive_node: bool = False
    """An anti-affinity keeps any two such Pods off one node, whatever their namespaces. Nothing counts devices in mode
    `host`, so a profile with devices needs it; you must keep away Pods that reach the devices in another way."""

    def __post_init__(self) -> None:
        for path in (*self.devices, *self.optional_devices):
            if isinstance(path, str):
                _check_path("devices", path)
        for name in self.env:
            _check_env("env", name)
        _check_runtime_class(self.runtime_class_name)
        has_devices = bool(self.devices or self.optional_devices)
        if has_devices and not self.exclusive_node:
            raise ValueError(
                "exclusiveNode: true is needed with devices: nothing counts them, so a Pod takes a whole node"
            )
        if has_devices and "plugin" in self.modes:
            raise ValueError(
                "modes: a profile with devices cannot serve mode plugin, where the device plugin provides them"
            )


class LegacyVolume(_Settings, frozen=True, kw_only=True):
    """A host directory in the old operator's format."""

    name: str
    """The volume's name."""
    mount_path: str
    """Where it is in the container."""
    host_path: str
    """Where it is on the node."""

    def __post_init__(self) -> None:
        _check_path("hostPath", self.host_path)
        _check_path("mountPath", self.mount_path)


class LegacyVariable(_Settings, frozen=True, kw_only=True):
    """An environment variable in the old operator's format."""

    name: str
    """The variable's name."""
    value: str = ""
    """Its value."""

    def __post_init__(self) -> None:
        _check_env("name", self.name)


class LegacyAccelerator(_Settings, frozen=True, kw_only=True):
    """What containers that request a resource get, in the old operator's format.

    Source: https://github.com/kubeflow/trainer/pull/9
    """

    volumes: tuple[LegacyVolume, ...] = ()
    """Host directories."""
    env_vars: tuple[LegacyVariable, ...] = ()
    """Environment variables."""


class Claims(_Settings, frozen=True, kw_only=True):
    """Resource claims (DRA) that Pods have themselves."""

    devices: tuple[str, ...] = ()
    """Names, or shell patterns, of claims, ResourceClaims, ResourceClaimTemplates or device classes that are the
    devices: a Pod that has one gets no device resource in addition."""

    def __post_init__(self) -> None:
        if len(self.devices) > MAX_CLAIM_PATTERNS:
            raise ValueError(f"devices: found {len(self.devices):,} patterns; valid: at most {MAX_CLAIM_PATTERNS}")


class Config(_Settings, frozen=True, kw_only=True):
    """The file as written. Every key is optional."""

    platform: Platform = "gke"
    """Whose node labels and taints the cluster has. `gfd`: those of NVIDIA's GPU feature discovery. `none`: no node
    selectors at all."""
    tpu: TpuSettings = TpuSettings()
    """TPU Pods."""
    eks: EksSettings = EksSettings()
    """Only with `platform: eks`."""
    gfd: GfdSettings = GfdSettings()
    """Only with `platform: gfd`."""
    exclusive_placement: Literal["auto", "affinity", "jobset", "off"] | bool = "auto"
    """How each multi-host slice gets a node pool of its own. `affinity`: by a pod affinity and anti-affinity, on every
    kind. `jobset`: by the exclusive placement of JobSet and LeaderWorkerSet, on these two kinds and on GKE only; slices
    of the two do not see each other. `off`, or false: not at all. `auto`, or true: `affinity`."""
    shared_memory: bool | str = False
    """Default for `accel.io/shm`: false, true, or a size such as 64Gi."""
    schedulers: Schedulers = Schedulers()
    """Choice of scheduler."""
    controllers: tuple[str, ...] = ()
    """Kinds (`Kind.group`) whose Jobs, StatefulSets and the like are not injected themselves, in addition to the
    known ones: JobSet, RayJob, MPIJob, LeaderWorkerSet."""
    claims: Claims = Claims()
    """Claims."""
    placements: dict[str, Placement] = msgspec.field(default_factory=dict)
    """Sets that `accel.io/placement` can name, by name."""
    host_profiles: dict[str, HostProfile] = msgspec.field(default_factory=dict)
    """Host devices and driver libraries, by name. If two have the same path or variable, the alphabetically first
    wins, whatever their order in the file: Helm sorts the keys of its values."""
    detect: tuple[str, ...] = ()
    """Resources (`nvidia.com/gpu`) whose presence in a container's limits applies a profile without an annotation."""
    accelerators: dict[str, LegacyAccelerator] = msgspec.field(default_factory=dict)
    """The old operator's format, by resource: each entry is detected and applied in every opted-in namespace."""
    catalogue: tuple[AnyEntry, ...] = ()
    """Entries added to the catalogue, or replacing one of the same name."""

    def __post_init__(self) -> None:
        if isinstance(self.shared_memory, str) and not quantity.is_positive(self.shared_memory):
            raise ValueError(
                f"sharedMemory: found {quoted(self.shared_memory)}; valid: true, false, or a size such as 64Gi"
            )
        for key, names in (("placements", self.placements), ("hostProfiles", self.host_profiles)):
            for name in names:
                if not syntax.is_subdomain(name) or len(name) > LONGEST_NAME:
                    raise ValueError(
                        f'{key}: {quoted(name)} is not a name: lower-case letters, digits, "-" and ".", '
                        f"at most {LONGEST_NAME}"
                    )
        for key, resources in (("detect", self.detect), ("accelerators", tuple(self.accelerators))):
            for resource in resources:
                syntax.check_key(resource, key)
                if "/" not in resource:
                    raise ValueError(f"{key}: {quoted(resource)} is not a device resource, such as nvidia.com/gpu")
        _check_patterns(self._patterns())
        if (number := sum(map(types, self.catalogue))) > MAX_TYPES:
            raise ValueError(f"catalogue: found {number:,} types; valid: at most {MAX_TYPES:,}")

    @property
    def placement(self) -> str:
        """`affinity`, `jobset` or `off`."""
        written = self.written_placement
        return "affinity" if written == "auto" else written

    @property
    def written_placement(self) -> str:
        """`exclusivePlacement` in words: YAML reads `off` as false."""
        if isinstance(self.exclusive_placement, bool):
            return "auto" if self.exclusive_placement else "off"
        return self.exclusive_placement

    def _patterns(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each list of shell patterns, with its path."""
        for index, default in enumerate(self.schedulers.defaults):
            yield f"schedulers: defaults[{index}].types", default.types
            yield f"schedulers: defaults[{index}].namespaces", default.namespaces
        yield "claims: devices", self.claims.devices
        for name, placement in self.placements.items():
            yield f"placements: {name}.namespaces", placement.namespaces
        for name, profile in self.host_profiles.items():
            yield f"hostProfiles: {name}.types", profile.types
            yield f"hostProfiles: {name}.namespaces", profile.namespaces


def _check_patterns(lists: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    number = 0
    for where, patterns in lists:
        number += len(patterns)
        for pattern in patterns:
            if len(pattern) > LONGEST_PATTERN:
                raise ValueError(f"{where}: {quoted(pattern)} has more than {LONGEST_PATTERN} characters")
        if number > MAX_PATTERNS:
            raise ValueError(f"{where}: more than {MAX_PATTERNS:,} patterns in all; a pattern can match many names")


def _check_runtime_class(name: str) -> None:
    if name and not syntax.is_subdomain(name):
        raise ValueError(f"runtimeClassName: {quoted(name)} is not the name of a RuntimeClass, such as nvidia")


def _check_path(field: str, path: str) -> None:
    if not path.startswith("/"):
        raise ValueError(f"{field}: {quoted(path)} is not absolute")
    if ".." in path.split("/"):
        raise ValueError(f'{field}: {quoted(path)} has "..", which Kubernetes refuses')


def _check_env(field: str, name: str) -> None:
    if not _ENV_NAME.fullmatch(name):
        raise ValueError(f"{field}: {quoted(name)} is not a valid variable name")
