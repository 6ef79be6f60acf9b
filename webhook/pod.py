"""The parts of a Pod template that we look at: a read-only typed view. Unknown fields are skipped, never built.

Field names are the API's own (camelCase), so that a path of an `Edit` is also the path of attributes here.
`null` and an absent field look alike: both are None. A field that an edit can touch must be declared.
Fields stand in the API's own order, since a decoder that finds them in its own is faster.
"""

from typing import Any

import msgspec

Quantity = str | int | float
Annotations = dict[str, str | None]


class View(msgspec.Struct, frozen=True, gc=False):
    """A read-only look at a JSON object. Made by decoding alone, so it holds no cycles for gc to find."""


class OwnerReference(View, frozen=True, gc=False):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class Labels(View, frozen=True, gc=False):
    """The labels that anything here reads: a Pod of a JobSet has some twenty, and each one built costs time."""

    kueue_queue: str | None = msgspec.field(name="kueue.x-k8s.io/queue-name", default=None)
    leader_worker_set: str | None = msgspec.field(name="leaderworkerset.sigs.k8s.io/name", default=None)
    ray_cluster: str | None = msgspec.field(name="ray.io/cluster", default=None)
    whole_node: str | None = msgspec.field(name="accel.io/whole-node", default=None)

    def get(self, key: object) -> str | None:
        """The value of a label; asking for one that is not declared is our mistake."""
        value: str | None = getattr(self, _LABELS[key])
        return value


_LABELS: dict[object, str] = {field.encode_name: field.name for field in msgspec.structs.fields(Labels)}


class Metadata(View, frozen=True, gc=False):
    name: str | None = None
    generateName: str | None = None
    namespace: str | None = None
    deletionTimestamp: str | None = None
    labels: Labels | None = None
    annotations: Annotations | None = None
    ownerReferences: list[OwnerReference] | None = None


class EnvVarSource(View, frozen=True, gc=False):
    """That there is one is all that matters."""


class EnvVar(View, frozen=True, gc=False):
    name: str | None = None
    value: str | None = None
    valueFrom: EnvVarSource | None = None


class Resources(View, frozen=True, gc=False):
    limits: dict[str, Quantity | None] | None = None
    requests: dict[str, Quantity | None] | None = None


class VolumeMount(View, frozen=True, gc=False):
    name: str | None = None
    mountPath: str | None = None


class ContainerSecurityContext(View, frozen=True, gc=False):
    privileged: bool | None = None
    allowPrivilegeEscalation: bool | None = None


class Container(View, frozen=True, gc=False):
    name: str | None = None
    envFrom: list[Any] | None = None
    env: list[EnvVar | None] | None = None
    resources: Resources | None = None
    volumeMounts: list[VolumeMount | None] | None = None
    securityContext: ContainerSecurityContext | None = None


class Toleration(View, frozen=True, gc=False):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Expression(View, frozen=True, gc=False):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class NodeSelectorTerm(View, frozen=True, gc=False):
    matchExpressions: list[Expression] | None = None
    matchFields: list[Any] | None = None


class NodeSelectorTerms(View, frozen=True, gc=False):
    nodeSelectorTerms: list[NodeSelectorTerm] | None = None


class NodeAffinity(View, frozen=True, gc=False):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelectorTerms | None = None


class LabelSelector(View, frozen=True, gc=False):
    matchExpressions: list[Expression | None] | None = None


class PodAffinityTerm(View, frozen=True, gc=False):
    labelSelector: LabelSelector | None = None
    topologyKey: str | None = None


class PodAntiAffinity(View, frozen=True, gc=False):
    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm | None] | None = None


class Affinity(View, frozen=True, gc=False):
    nodeAffinity: NodeAffinity | None = None
    podAntiAffinity: PodAntiAffinity | None = None


class HostPath(View, frozen=True, gc=False):
    path: str | None = None


class Volume(View, frozen=True, gc=False):
    name: str | None = None
    hostPath: HostPath | None = None


class OperatingSystem(View, frozen=True, gc=False):
    name: str | None = None


class PodSpec(View, frozen=True, gc=False):
    volumes: list[Volume | None] | None = None
    initContainers: list[Container | None] | None = None
    containers: list[Container | None] | None = None
    restartPolicy: str | None = None
    dnsPolicy: str | None = None
    nodeSelector: dict[str, str | None] | None = None
    nodeName: str | None = None
    hostNetwork: bool | None = None
    subdomain: str | None = None
    affinity: Affinity | None = None
    schedulerName: str | None = None
    tolerations: list[Toleration | None] | None = None
    os: OperatingSystem | None = None


class Template(View, frozen=True, gc=False):
    """A pod template; a Pod has the same two fields."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None


NO_METADATA = Metadata()
NO_LABELS = Labels()
NO_SPEC = PodSpec()
