"""Pods: their own template, and what they reveal about their workload. Pure."""

from collections.abc import Callable
from typing import Final, final

from webhook.core import slices
from webhook.core.kinds.kind import Context, Kind, Target, Targets
from webhook.core.resolution import Resolution
from webhook.core.schema.pod import NO_METADATA, Metadata, Template
from webhook.core.slice_keys import SliceKeys
from webhook.core.template import (
    GKE,
    KUBERAY,
    LEADER_WORKER_SET,
    NOBODY,
    PodTemplate,
    annotations_of,
    controller_of,
    labels_of,
)

MIRROR: Final = "kubernetes.io/config.mirror"
OS_LABEL: Final = "kubernetes.io/os"

NODE_CHOSEN: Final = "node-chosen"
"""Why a new Pod with a node's name is left alone."""

_SCHEDULING_OWNERS: Final = {("batch/v1", "Job"), ("batch.volcano.sh/v1alpha1", "Job")}


def _owned_scheduling(metadata: Metadata) -> bool:
    """A workload's scheduler was decided when the workload was created: a Pod must not differ from its siblings."""
    owner = controller_of(metadata)
    if owner is None:
        return False
    if owner.kind == "StatefulSet" and labels_of(metadata).leader_worker_set:
        return True
    return (owner.apiVersion, owner.kind) in _SCHEDULING_OWNERS


def _worker_ids_by(metadata: Metadata) -> str:
    labels, owner = labels_of(metadata), controller_of(metadata)
    if labels.leader_worker_set:
        return LEADER_WORKER_SET
    if labels.ray_cluster:
        return KUBERAY
    return GKE if owner is not None and slices.of_job(owner) else NOBODY


def _facts(pod: Template, target: Target) -> Resolution:
    resolution = target.resolution
    found = slices.of_pod(pod, resolution)
    if found is not None:
        resolution = resolution.with_slices_and_worker(found, None)
    if not resolution.full:  # nobody asks which worker it is
        return resolution
    return slices.with_worker(target.template, resolution, slices.worker_of_pod(pod, resolution))


@final
class Pod(Kind[Template]):
    """A Pod."""

    group = ""
    kind = "Pod"
    plural = "pods"
    view = Template
    pods = ""
    reapply = "immutable"
    decides_children = True  # a StatefulSet of a LeaderWorkerSet's group belongs to its leader Pod

    def templates(self, pod: Template) -> list[PodTemplate]:
        """The Pod itself."""
        metadata = pod.metadata or NO_METADATA
        template = PodTemplate(
            path=(),
            view=pod,
            levels=(metadata,),
            owned_scheduling=_owned_scheduling(metadata),
            worker_ids_by=_worker_ids_by(metadata),
        )
        return [template]

    def skipped(self, pod: Template) -> str | None:
        """Pods that no scheduler places, or for which there is no accelerator driver."""
        owner, spec = controller_of(pod.metadata), pod.spec
        if annotations_of(pod.metadata).get(MIRROR):
            return "mirror-pod"
        if owner is not None and owner.kind == "DaemonSet":
            return "daemonset-pod"
        if spec is None:
            return None
        if (spec.os is not None and spec.os.name == "windows") or (spec.nodeSelector or {}).get(OS_LABEL) == "windows":
            return "windows-pod"
        return NODE_CHOSEN if spec.nodeName else None

    def resolve_group(self, pod: Template, targets: Targets, _context: Context) -> Targets:
        """What the Pod of a Job or JobSet can learn, whether or not we have seen its workload."""
        return [Target(t.template, _facts(pod, t)) for t in targets]

    def slice_keys(self, pod: Template, _targets: Targets, _context: Context) -> Callable[[Target], SliceKeys | None]:
        """By the labels that the Pod has."""
        return lambda target: slices.keys_of_pod(pod, target.resolution)


POD: Final = Pod()
