"""The parts of a Pod template that we read: a read-only typed view. Unknown fields are skipped, never built.

Field names are the API's own (camelCase), so that a path of an `Edit` is also the path of attributes here.
`null` and an absent field are the same: both are None. A field that an edit can touch must be declared.
Fields are in the API's own order, since decoding in the expected order is faster.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from webhook.core import limits

Name = Annotated[str, Meta(max_length=limits.NAME)]
Value = Annotated[str, Meta(max_length=limits.LABEL_VALUE)]
Key = Annotated[str, Meta(max_length=limits.KEY)]
Number = Annotated[int, Meta(ge=-limits.NUMBER - 1, le=limits.NUMBER)]
Text = Annotated[str, Meta(max_length=limits.OBJECT)]
"""Text that APIs limit only by the size of the object: variables, paths, other annotations. Processing it costs no more
than decoding it."""
Quantity = Text | Annotated[int, Meta(ge=-limits.AMOUNT - 1, le=limits.AMOUNT)] | float
Annotations = dict[Text, Text | None]


class View(msgspec.Struct, frozen=True, gc=False):
    """A read-only view of a JSON object. Created only by decoding, so it contains no cycles for the GC."""


class OwnerReference(View, frozen=True, gc=False):
    apiVersion: Text = ""
    kind: Text = ""
    name: Text = ""
    uid: Text = ""
    controller: bool | None = None


class Labels(View, frozen=True, gc=False):
    """The labels that are read here: a JobSet's Pod has about twenty, and decoding each costs time."""

    kueue_queue: Value | None = msgspec.field(name="kueue.x-k8s.io/queue-name", default=None)
    multikueue_origin: Value | None = msgspec.field(name="kueue.x-k8s.io/multikueue-origin", default=None)
    kai_queue: Value | None = msgspec.field(name="kai.scheduler/queue", default=None)
    yunikorn_queue: Value | None = msgspec.field(name="yunikorn.apache.org/queue", default=None)
    koordinator_quota: Value | None = msgspec.field(name="quota.scheduling.koordinator.sh/name", default=None)
    queue: Value | None = None
    leader_worker_set: Value | None = msgspec.field(name="leaderworkerset.sigs.k8s.io/name", default=None)
    job_name: Value | None = msgspec.field(name="batch.kubernetes.io/job-name", default=None)
    ray_cluster: Value | None = msgspec.field(name="ray.io/cluster", default=None)
    ray_replica: Value | None = msgspec.field(name="ray.io/worker-group-replica-name", default=None)
    multi_host: Value | None = msgspec.field(name="accel.io/multi-host", default=None)
    slice: Value | None = msgspec.field(name="accel.io/slice", default=None)
    whole_node: Value | None = msgspec.field(name="accel.io/whole-node", default=None)
    trainer_step: Value | None = msgspec.field(name="trainer.kubeflow.org/trainjob-ancestor-step", default=None)
    pod_index: Value | None = msgspec.field(name="apps.kubernetes.io/pod-index", default=None)

    def get(self, key: object) -> str | None:
        """The value of a label; requesting an undeclared one is a bug of ours."""
        value: str | None = getattr(self, _LABELS[key])
        return value


_LABELS: dict[object, str] = {field.encode_name: field.name for field in msgspec.structs.fields(Labels)}


class Metadata(View, frozen=True, gc=False):
    name: Name | None = None
    generateName: Name | None = None
    namespace: Name | None = None
    deletionTimestamp: Name | None = None
    labels: Labels | None = None
    annotations: Annotations | None = None
    ownerReferences: list[OwnerReference] | None = None


class EnvVarSource(View, frozen=True, gc=False):
    """Only its existence matters."""


class EnvVar(View, frozen=True, gc=False):
    name: Text | None = None
    value: Text | None = None
    valueFrom: EnvVarSource | None = None


class ClaimUse(View, frozen=True, gc=False):
    """A container's claim: the name of one of the Pod's."""

    name: Name | None = None


class Resources(View, frozen=True, gc=False):
    limits: dict[Key, Quantity | None] | None = None
    requests: dict[Key, Quantity | None] | None = None
    claims: list[ClaimUse | None] | None = None


class VolumeMount(View, frozen=True, gc=False):
    name: Name | None = None
    mountPath: Text | None = None
    readOnly: bool | None = None


class ContainerSecurityContext(View, frozen=True, gc=False):
    privileged: bool | None = None
    allowPrivilegeEscalation: bool | None = None


class Container(View, frozen=True, gc=False):
    name: Name | None = None
    envFrom: list[Any] | None = None
    env: list[EnvVar | None] | None = None
    resources: Resources | None = None
    restartPolicy: Name | None = None
    volumeMounts: list[VolumeMount | None] | None = None
    securityContext: ContainerSecurityContext | None = None


Containers = Annotated[list[Container | None], Meta(max_length=limits.CONTAINERS)]


class Toleration(View, frozen=True, gc=False):
    key: Key | None = None
    operator: Name | None = None
    value: Value | None = None
    effect: Name | None = None


class Expression(View, frozen=True, gc=False):
    key: Key | None = None
    operator: Name | None = None
    values: list[Text] | None = None


class NodeSelectorTerm(View, frozen=True, gc=False):
    matchExpressions: list[Expression] | None = None
    matchFields: list[Any] | None = None


class NodeSelectorTerms(View, frozen=True, gc=False):
    nodeSelectorTerms: list[NodeSelectorTerm] | None = None


class NodeAffinity(View, frozen=True, gc=False):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelectorTerms | None = None


class PodAffinityTerms(View, frozen=True, gc=False):
    requiredDuringSchedulingIgnoredDuringExecution: list[Any] | None = None
    """Undecoded: a term is ours only if it equals ours exactly, in known and unknown fields."""


class Affinity(View, frozen=True, gc=False):
    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodAffinityTerms | None = None
    podAntiAffinity: PodAffinityTerms | None = None


class HostPath(View, frozen=True, gc=False):
    path: Text | None = None


class Volume(View, frozen=True, gc=False):
    name: Name | None = None
    hostPath: HostPath | None = None


class PodClaim(View, frozen=True, gc=False):
    """A claim of the Pod, and its source."""

    name: Name | None = None
    resourceClaimName: Name | None = None
    resourceClaimTemplateName: Name | None = None


class OperatingSystem(View, frozen=True, gc=False):
    name: Name | None = None


class PodSpec(View, frozen=True, gc=False):
    volumes: list[Volume | None] | None = None
    initContainers: Containers | None = None
    containers: Containers | None = None
    restartPolicy: Name | None = None
    dnsPolicy: Name | None = None
    nodeSelector: dict[Key, Value | None] | None = None
    nodeName: Name | None = None
    hostNetwork: bool | None = None
    subdomain: Name | None = None
    affinity: Affinity | None = None
    schedulerName: Text | None = None
    tolerations: list[Toleration | None] | None = None
    runtimeClassName: Name | None = None
    os: OperatingSystem | None = None
    resourceClaims: list[PodClaim | None] | None = None


class Template(View, frozen=True, gc=False):
    """A pod template; a Pod has the same two fields."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None


NO_METADATA = Metadata()
NO_LABELS = Labels()
NO_SPEC = PodSpec()
