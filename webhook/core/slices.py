"""How a Pod learns its slice and its place in it: MEGASCALE_* and TPU_WORKER_* as facts. Pure.

Everything comes from the downward API, so that it is correct after any restart and needs no state.
"""

from collections.abc import Mapping
from typing import Final

from webhook.core.resolution import JOB_NAME_VARIABLE, Resolution, Slices, Worker
from webhook.core.schema.pod import OwnerReference, Template
from webhook.core.slice_keys import BY_POD, RAY_REPLICA, SliceKeys, ours
from webhook.core.slice_keys import JOB as JOB_KEYS
from webhook.core.template import KUBERAY, LEADER_WORKER_SET, PodTemplate, annotations_of, controller_of, labels_of

JOBSET_PREFIX: Final = "jobset.sigs.k8s.io/"
"""Labels and annotations of JobSet's Pods.

Source: https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/pkg/controllers/jobset_controller.go
"""


JOBSET_NAME: Final = JOBSET_PREFIX + "jobset-name"
REPLICATED_JOB: Final = JOBSET_PREFIX + "replicatedjob-name"
JOBS: Final = JOBSET_PREFIX + "global-replicas"
JOBS_OF_REPLICATED_JOB: Final = JOBSET_PREFIX + "replicatedjob-replicas"
JOBS_OF_GROUP: Final = JOBSET_PREFIX + "group-replicas"
JOB: Final = JOBSET_PREFIX + "job-global-index"
JOB_OF_REPLICATED_JOB: Final = JOBSET_PREFIX + "job-index"
JOB_OF_GROUP: Final = JOBSET_PREFIX + "job-group-index"
COORDINATOR: Final = JOBSET_PREFIX + "coordinator"

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"

LONGEST_INDEX: Final = 6
"""Digits of a host's index."""


WORKER_ID: Final = "TPU_WORKER_ID"
HOSTNAMES: Final = "TPU_WORKER_HOSTNAMES"
PLACE: Final = ((WORKER_ID, "CLOUD_TPU_TASK_ID"), (HOSTNAMES, "TPU_PROCESS_ADDRESSES"))
"""The variables with a host's worker id and its slice's host names, each with libtpu's alternative name."""


def unset(resolution: Resolution) -> tuple[str, ...]:
    """Which of the variables of a host's place the user has not set in some container with chips."""
    missing: set[str] = set()
    for device_container in resolution.device_containers:
        have = {e.name for e in device_container.container.env or () if e is not None}
        missing.update([names[0] for names in PLACE if have.isdisjoint(names)])
    return tuple([names[0] for names in PLACE if names[0] in missing])


def says(resolution: Resolution, name: str) -> bool:
    """Whether the user has set this variable in some container with chips."""
    return any(e is not None and e.name == name for h in resolution.device_containers for e in h.container.env or ())


def field(annotation: str) -> str:
    """The field path of an annotation."""
    return f"metadata.annotations['{annotation}']"


_OWN_NUMBER: Final = field(JOBS_OF_REPLICATED_JOB)
_OWN_INDEX: Final = field(JOB_OF_REPLICATED_JOB)


def eligible(resolution: Resolution) -> bool:
    """Whether this template's Jobs can be slices of one job: by hardware, or by annotation."""
    shape, multislice = resolution.accelerator.slice, resolution.request.multislice
    if shape is None or not shape.multislice or multislice is False:
        return False
    return multislice is True or resolution.multi_host


NO_SLICES: Final = Slices("", "")
"""Each slice is a separate job, although GKE's own webhook would make them one: it fills in what a Pod leaves unset."""


def split_on_gke(resolution: Resolution) -> bool:
    """Whether the slices that GKE would count together are separate jobs."""
    shape, on_gke = resolution.accelerator.slice, resolution.site.config.platform == "gke"
    return on_gke and shape is not None and shape.multislice and resolution.request.multislice is False


def of_pod(pod: Template, resolution: Resolution) -> Slices | None:
    """For a JobSet's Pod: only if it has a single replicated job, so that global and own counts agree."""
    have = annotations_of(pod.metadata)
    everything = have.get(JOBS)
    if not everything or everything in ("0", "1"):
        return None
    if not eligible(resolution):
        return NO_SLICES if split_on_gke(resolution) and resolution.multi_host else None
    if everything != have.get(JOBS_OF_REPLICATED_JOB):
        return None
    return _pod_slices(pod, have)


def _pod_slices(pod: Template, have: Mapping[str, str | None]) -> Slices | None:
    name, member = have.get(JOBSET_NAME), have.get(REPLICATED_JOB)
    subdomain = pod.spec and pod.spec.subdomain
    if not name or not member or not subdomain:
        return None
    return Slices(
        number=_OWN_NUMBER,
        index=_OWN_INDEX,
        coordinator=coordinator_host(name, member, subdomain),
    )


def coordinator_host(jobset: str, replicated_job: str, subdomain: str) -> str:
    """The host name of worker 0 of slice 0: JobSet names Jobs, and each Job's Pods, with an index."""
    return f"{jobset}-{replicated_job}-0-0.{subdomain}"


def job_worker(subdomain: str | None, *, number: int | None = None, alone: bool = False) -> Worker:
    """For an Indexed Job: the controller derives its Pods' host names from it.

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
    """
    return Worker(field(COMPLETION_INDEX), f"$({JOB_NAME_VARIABLE})", subdomain, number=number, alone=alone)


def stateful_worker(name: str, subdomain: str | None, *, number: int | None = None) -> Worker:
    """For a StatefulSet whose Pods are the hosts of one slice.

    Source: https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#pod-index-label
    """
    return Worker(f"metadata.labels['{POD_INDEX}']", name, subdomain, number=number, alone=True)


LONGEST_SET_NAME: Final = 50
"""Characters of a name in a label's value, which has at most 63."""


def nth_slice(owner: str, number: int) -> str:
    """The value of our label of a slice; `owner` is the uid of what created its Pods, or its name."""
    return f"{owner[:LONGEST_SET_NAME]}-{number}"


def of_stateful_set(owner: OwnerReference) -> bool:
    """Whether the owner is an apps/v1 StatefulSet."""
    return owner.kind == "StatefulSet" and owner.apiVersion.startswith("apps/")


def keys_of_pod(pod: Template, resolution: Resolution) -> SliceKeys:
    """The labels that tell a Pod's slice from others, as far as its own metadata says it."""
    owner, labels = controller_of(pod.metadata), labels_of(pod.metadata)
    if owner is None or labels.leader_worker_set:
        return BY_POD
    if of_job(owner) and COMPLETION_INDEX in annotations_of(pod.metadata):
        return JOB_KEYS if labels.job_name else ours(nth_slice(owner.uid or owner.name, 0))
    if labels.ray_cluster and labels.ray_replica:
        return RAY_REPLICA
    index = _number(labels.pod_index)
    if of_stateful_set(owner) and index is not None:
        return ours(nth_slice(owner.uid or owner.name, index // resolution.accelerator.hosts))
    return BY_POD


def of_job(owner: OwnerReference) -> bool:
    """Whether the owner is a batch/v1 Job."""
    return owner.kind == "Job" and owner.apiVersion.startswith("batch/")


def worker_of_pod(pod: Template, resolution: Resolution) -> Worker:
    """A Pod's place by its own metadata, for a Job or a StatefulSet; others only know that they are alone."""
    owner, subdomain = controller_of(pod.metadata), (pod.spec and pod.spec.subdomain) or None
    if owner is not None and of_job(owner):
        alone, number = not _of_several(pod, resolution), _number(annotations_of(pod.metadata).get(COMPLETION_INDEX))
        return Worker(alone=alone) if number is None else job_worker(subdomain, number=number, alone=alone)
    if owner is not None and of_stateful_set(owner):
        number = _number(labels_of(pod.metadata).pod_index)
        if number is not None and number < resolution.accelerator.hosts:
            return stateful_worker(owner.name, subdomain, number=number)
    return Worker(alone=not resolution.multi_host)


def _of_several(pod: Template, resolution: Resolution) -> bool:
    """Whether a JobSet's Pod may belong to a job with several slices."""
    return eligible(resolution) and annotations_of(pod.metadata).get(JOBS, "1") not in ("0", "1")


def _number(text: str | None) -> int | None:
    return int(text) if text and len(text) <= LONGEST_INDEX and text.isascii() and text.isdecimal() else None


def with_worker(template: PodTemplate, resolution: Resolution, worker: Worker) -> Resolution:
    """The resolution with its worker, if we set it: the site says so, and no other controller does."""
    if template.worker_ids_by in (LEADER_WORKER_SET, KUBERAY) or not resolution.full:
        return resolution
    return resolution.with_slices_and_worker(resolution.slices, worker)
