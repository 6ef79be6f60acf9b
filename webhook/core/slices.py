"""How a Pod learns its slice and its place in it: MEGASCALE_* and TPU_WORKER_* as facts. Pure.

Everything comes from the downward API, so that it is right after any restart and needs no state.
"""

from collections.abc import Mapping
from typing import Final

from webhook.core.resolution import Resolution, Slices, Worker
from webhook.core.schema.pod import Template
from webhook.core.template import PodTemplate, annotations_of, controller_of

JOBSET: Final = "jobset.sigs.k8s.io/"
"""Labels and annotations of JobSet's Pods.

Source: https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/pkg/controllers/jobset_controller.go
"""


JOBSET_NAME: Final = JOBSET + "jobset-name"
REPLICATED_JOB: Final = JOBSET + "replicatedjob-name"
JOBS: Final = JOBSET + "global-replicas"
JOBS_OF_REPLICATED_JOB: Final = JOBSET + "replicatedjob-replicas"
JOBS_OF_GROUP: Final = JOBSET + "group-replicas"
JOB: Final = JOBSET + "job-global-index"
JOB_OF_REPLICATED_JOB: Final = JOBSET + "job-index"
JOB_OF_GROUP: Final = JOBSET + "job-group-index"
COORDINATOR: Final = JOBSET + "coordinator"


def field(annotation: str) -> str:
    """The field path of an annotation."""
    return f"metadata.annotations['{annotation}']"


_OWN_NUMBER: Final = field(JOBS_OF_REPLICATED_JOB)
_OWN_INDEX: Final = field(JOB_OF_REPLICATED_JOB)


def eligible(resolution: Resolution) -> bool:
    """Whether this template's Jobs can be slices of one job: by hardware, or by the user's word."""
    shape, said = resolution.accelerator.slice, resolution.request.multislice
    if shape is None or said is False:
        return False
    return said is True or (shape.multislice and resolution.multi_host)


def of_pod(pod: Template, resolution: Resolution) -> Slices | None:
    """For a JobSet's Pod: only where all its jobs are of one kind, so that global and own counts agree."""
    have = annotations_of(pod.metadata)
    everything = have.get(JOBS)
    if not everything or everything in ("0", "1") or not eligible(resolution):
        return None
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
        coordinator=f"{name}-{member}-0-0.{subdomain}",
    )


def worker_of_pod(pod: Template) -> Worker:
    """Job Pods have an index; others only need to know that they are alone."""
    owner = controller_of(pod.metadata)
    indexed = owner is not None and owner.kind == "Job" and owner.apiVersion.startswith("batch/")
    return Worker(subdomain=pod.spec.subdomain if pod.spec else None, indexed=indexed)


def tells_worker(template: PodTemplate, resolution: Resolution) -> bool:
    """TPU_* is ours to set only where the site says so and no other controller does it."""
    full = resolution.site.config.tpu.environment == "full"
    return full and template.worker_env and resolution.accelerator.slice is not None


def with_worker(template: PodTemplate, resolution: Resolution, worker: Worker) -> Resolution:
    """The resolution with its worker, where that is ours to tell."""
    return resolution.with_topology(resolution.slices, worker) if tells_worker(template, resolution) else resolution
