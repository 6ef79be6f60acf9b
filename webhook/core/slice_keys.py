"""The labels by which the Pods of one slice can be told from all others, for each kind. Pure.

A required pod affinity whose `matchLabelKeys` are a slice's keys brings its Pods together, and an anti-affinity with
its `mismatchLabelKeys` keeps all other slices away. A key that a Pod lacks would be ignored, and then the term would
mean every slice: so each key here is one that the kind's controller, or our own injection, always sets.
Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#matchlabelkeys
"""

import hashlib
from dataclasses import dataclass
from typing import Final, final

MULTI_HOST: Final = "accel.io/multi-host"
"""The label of every Pod that is one of several hosts of a slice."""

SLICE: Final = "accel.io/slice"
"""The label that we set ourselves, where a controller sets none that will do."""

_LONGEST_VALUE: Final = 63


@final
@dataclass(frozen=True)
class SliceKeys:
    """What one kind's Pods have."""

    same: tuple[str, ...]  # all of them equal: the same slice
    other: tuple[str, ...]  # any of them different: another slice
    value: str = ""  # of our own label, if it is to be set


JOB: Final = SliceKeys(("batch.kubernetes.io/job-name",), ("batch.kubernetes.io/controller-uid",))
"""Each Job is a slice. Names can be the same in two namespaces, uids cannot.

Source: https://kubernetes.io/docs/reference/labels-annotations-taints/#batchkubernetesio-controller-uid
"""

_REVISION: Final = "leaderworkerset.sigs.k8s.io/template-revision-hash"
_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-key"
_SUBGROUP: Final = "leaderworkerset.sigs.k8s.io/subgroup-key"

GROUP: Final = SliceKeys((_GROUP, _REVISION), (_GROUP,))
"""Each group of a LeaderWorkerSet is a slice. Its key is made from namespace and leader, so in a roll-out it is also
that of the Pods which are still terminating; those need not be joined.

Source: https://github.com/kubernetes-sigs/lws/blob/v0.8.0/pkg/webhooks/pod_webhook.go (genGroupUniqueKey)
"""

SUBGROUP: Final = SliceKeys((_SUBGROUP, _REVISION), (_SUBGROUP, _GROUP))
"""Each subgroup is a slice. Its key is made from the leader's name without a namespace, so another group's can be the
same."""

VOLCANO_JOB: Final = SliceKeys(("volcano.sh/job-name",), ("volcano.sh/job-name", "volcano.sh/job-namespace"))
"""A Volcano Job is a slice.

Source: https://github.com/volcano-sh/volcano/blob/v1.14.0/pkg/controllers/job/job_controller_util.go
"""

VOLCANO_TASK: Final = SliceKeys(
    ("volcano.sh/job-name", "volcano.sh/task-spec"),
    ("volcano.sh/job-name", "volcano.sh/job-namespace", "volcano.sh/task-spec"),
)
"""Each task of a Volcano Job is a slice."""

TRAINING_JOB: Final = SliceKeys(("training.kubeflow.org/job-name",), ("training.kubeflow.org/job-name",))
"""A PyTorchJob, TFJob or MPIJob whose name is not known yet is a slice. Its Pods have no label with the namespace, nor
with a uid.

Source: https://github.com/kubeflow/training-operator/blob/v1.9.3/pkg/controller.v1/common/job_controller.go (GenLabels)
Source: https://github.com/kubeflow/mpi-operator/blob/v0.8.0/pkg/controller/mpi_job_controller.go (defaultLabels)
"""

RAY_REPLICA: Final = SliceKeys(
    ("ray.io/cluster", "ray.io/worker-group-replica-name"), ("ray.io/cluster", "ray.io/worker-group-replica-name")
)
"""Each replica of a worker group is a slice, if KubeRay labels replicas (feature gate RayMultiHostIndexing).

Source: https://github.com/ray-project/kuberay/blob/v1.6.0/ray-operator/controllers/ray/common/pod.go
"""

OURS: Final = SliceKeys((SLICE,), (SLICE,))
"""Our own label says it."""

BY_POD: Final = SliceKeys((), ())
"""A template cannot say it: each Pod is told apart at its own admission."""


def ours(value: str) -> SliceKeys:
    """With the value of our own label."""
    return SliceKeys(OURS.same, OURS.other, value)


def training_job(namespace: str, name: str) -> SliceKeys:
    """A PyTorchJob, TFJob or MPIJob by its name, with a label of ours: another namespace may have one of this name."""
    value = f"{namespace}.{name}"
    if len(value) > _LONGEST_VALUE:
        value = hashlib.sha256(value.encode()).hexdigest()[:_LONGEST_VALUE]
    return SliceKeys(TRAINING_JOB.same, OURS.other, value)
