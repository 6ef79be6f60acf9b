"""PyTorchJob, TFJob, MPIJob: replicas by role, whose operators set all but the devices. Pure."""

from collections.abc import Callable, Iterator
from typing import Final, final

from webhook.core.annotations import TYPE
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.kinds.kind import (
    Context,
    Findings,
    Kind,
    Target,
    Targets,
    check_reach,
    inject_key_only,
    one_slice_of,
    unindexed,
    whole_slices,
    worker_ids,
)
from webhook.core.messages import Denied, Warn
from webhook.core.schema.kubeflow import Role, TrainingJob
from webhook.core.schema.pod import NO_METADATA
from webhook.core.slice_keys import TRAINING_JOB, SliceKeys, training_job
from webhook.core.template import NOBODY, PodTemplate

WORKER: Final = "worker"
LEADS: Final = ("master", "chief")
"""Roles that train along with the workers, as rank 0."""
LAUNCHER: Final = "launcher"

BLIND: Final = "kubeflow.org/v2beta1"
"""The version whose operator hides NVIDIA GPUs from a launcher that does not work: it empties NVIDIA_VISIBLE_DEVICES.

Source: https://github.com/kubeflow/mpi-operator/blob/v0.8.0/pkg/controller/mpi_job_controller.go
"""
NVIDIA: Final = "nvidia"

FIELDS: Final = ("pytorchReplicaSpecs", "tfReplicaSpecs", "mpiReplicaSpecs")


def roles_of(job: TrainingJob) -> Iterator[tuple[str, str, Role]]:
    """(field, name, role) of each role; names are case-insensitive, as for their operators."""
    for field in FIELDS:
        for name, role in (getattr(job.spec, field, None) or {}).items():
            if role is not None:
                yield field, name, role


def _trains(job: TrainingJob, name: str) -> bool:
    """Whether a role's Pods train, so that the object's own metadata applies to them."""
    role = name.lower()
    return role == WORKER or role in LEADS or (role == LAUNCHER and _launcher_works(job))


def _launcher_works(job: TrainingJob) -> bool:
    """Source: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/ (runLauncherAsWorker)"""
    return job.spec is not None and bool(job.spec.runLauncherAsWorker)


def _pods(job: TrainingJob, targets: Targets) -> Iterator[tuple[Accelerator, int]]:
    """Each role's accelerator and Pods: a master and its workers may be the hosts of one slice."""
    roles = {name: role for _, name, role in roles_of(job)}
    for target in targets:
        hardware, name = target.resolution.accelerator, target.template.name
        if hardware.hosts > 1 and name.lower() == LAUNCHER and not _launcher_works(job):
            raise Denied("one-pod", where=name, value=hardware.name, hosts=hardware.hosts, what=f"a {name}")
        yield hardware, roles[name].pods


def _blind_launcher(job: TrainingJob, targets: Targets) -> Iterator[Warn]:
    """Warns about GPUs of a launcher that are counted, and that it cannot see."""
    if job.apiVersion != BLIND or _launcher_works(job):
        return
    for target in targets:
        resolution = target.resolution
        by_runtime = resolution.accelerator.family == NVIDIA and resolution.request.mode != "host"
        if by_runtime and target.template.name.lower() == LAUNCHER:
            yield Warn("launcher-blind", {"name": target.template.name})


def _without_leads(job: TrainingJob, targets: Targets) -> Targets:
    """The targets without a master that coordinates hosts but is not one of them.

    The workers of a multi-host type can be whole slices by themselves. A master that gets the type only from
    the object is then not a host; if its own template has it, it is.
    """
    workers = [t for t in targets if t.template.name.lower() == WORKER and t.resolution.multi_host]
    if not workers or any(True for _ in whole_slices(_pods(job, workers))):
        return targets
    return [t for t in targets if t.template.name.lower() not in LEADS or not _heard(t)]


def _heard(target: Target) -> bool:
    """Whether the type comes from the object's own metadata."""
    return target.resolution.multi_host and any(key == TYPE for key, _ in target.resolution.request.outer)


class TrainingOperatorJob(Kind[TrainingJob]):
    """What the three kinds have in common."""

    group = "kubeflow.org"
    view = TrainingJob
    pods = "distinct"
    decides_children: bool = False
    reapply = "restored"

    def templates(self, job: TrainingJob) -> Iterator[PodTemplate]:
        """Each role's template. The object's own metadata is for the roles that train."""
        for field, name, role in roles_of(job):
            if role.template is None:
                continue
            outer = (job.metadata or NO_METADATA) if _trains(job, name) else inject_key_only(job.metadata)
            levels = (outer, role.template.metadata or NO_METADATA)
            yield PodTemplate(("spec", field, name, "template"), role.template, levels, name=name, worker_ids_by=NOBODY)

    def rolls(self, _job: TrainingJob) -> bool:
        """Not once the operator has made the Pods: it makes new ones only for those that ended.

        Source: https://github.com/kubeflow/training-operator/blob/63728861/pkg/controller.v1/common/pod.go
        """
        return False

    def resolve_group(self, job: TrainingJob, targets: Targets, _context: Context) -> Targets:
        """Their Pods have no index that a field can refer to."""
        return unindexed(_without_leads(job, targets))

    def slice_keys(self, job: TrainingJob, targets: Targets, context: Context) -> Callable[[Target], SliceKeys | None]:
        """The job is one slice, or nothing says which of its Pods belong together."""
        if one_slice_of(_pods(job, targets)) is None:
            return lambda _target: None
        name = (job.metadata or NO_METADATA).name
        one = training_job(context.namespace, name) if name and context.namespace else TRAINING_JOB
        return lambda _target: one

    def object_edits(self, job: TrainingJob, targets: Targets, _context: Context) -> Findings:
        """Whether the replicas are whole slices, and know their places."""
        places = {name: ("spec", field, name, "template") for field, name, role in roles_of(job) if role.template}
        if not any(_trains(job, name) for name in places):
            check_reach(job.metadata, next(iter(places.values()), None))
        yield from worker_ids(targets)
        yield from whole_slices(_pods(job, targets))
        yield from _blind_launcher(job, targets)


@final
class PyTorchJob(TrainingOperatorJob):
    """A PyTorchJob."""

    kind = "PyTorchJob"
    plural = "pytorchjobs"


@final
class TFJob(TrainingOperatorJob):
    """A TFJob."""

    kind = "TFJob"
    plural = "tfjobs"


@final
class MPIJob(TrainingOperatorJob):
    """An MPIJob, of the training operator or of the MPI operator."""

    kind = "MPIJob"
    plural = "mpijobs"
    decides_children: bool = True  # the Job of its launcher
    versions: tuple[str, ...] = ("v1", "v2beta1")


PYTORCHJOB: Final = PyTorchJob()
TFJOB: Final = TFJob()
MPIJOB: Final = MPIJob()
