"""PyTorchJob, TFJob, MPIJob: replicas by role, whose operators set all but the devices. Pure."""

from collections.abc import Iterator
from typing import Final, final

from webhook.core.annotations import INJECT, TYPE
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.kinds.kind import (
    Context,
    Findings,
    Kind,
    Targets,
    check_reach,
    inject_key_only,
    unindexed,
    whole_slices,
    worker_ids,
)
from webhook.core.messages import Denied, Warn
from webhook.core.schema.kubeflow import Role, TrainingJob, TrainingSpec
from webhook.core.schema.pod import NO_METADATA, Template
from webhook.core.template import NOBODY, PodTemplate, annotations_of

WORKER: Final = "worker"
LEADS: Final = ("master", "chief")
"""Roles that train like the workers do, beside those that only start them."""
ALONE: Final = ("launcher",)


NO_TEMPLATE: Final = Template()
FIELDS: Final = TrainingSpec.__struct_fields__


def roles_of(job: TrainingJob) -> Iterator[tuple[str, str, Role]]:
    """(field, name, role) of each role; names in any case, as their operators take them."""
    for field in FIELDS:
        for name, role in (getattr(job.spec, field, None) or {}).items():
            if role is not None:
                yield field, name, role


def _pods(roles: dict[str, tuple[str, Role]], targets: Targets) -> Iterator[tuple[Accelerator, int]]:
    """Each role's accelerator and Pods: a master and its workers may be the hosts of one slice."""
    for target in targets:
        hardware, name = target.resolution.accelerator, target.template.name
        if hardware.hosts > 1 and name.lower() in ALONE:
            raise Denied("one-pod", where=name, value=hardware.name, hosts=hardware.hosts, what=f"a {name}")
        number = roles[name][1].replicas
        yield hardware, 1 if number is None else number


def _without(roles: dict[str, tuple[str, Role]]) -> Iterator[Warn]:
    """A master that trains beside the workers, and has none of their devices."""
    for name, (_, role) in roles.items():
        said = annotations_of((role.template or NO_TEMPLATE).metadata)
        if name.lower() in LEADS and TYPE not in said and said.get(INJECT) != "false":
            yield Warn("role-without", {"role": name})


class TrainingOperatorJob(Kind[TrainingJob]):
    """What the three kinds have in common."""

    group = "kubeflow.org"
    view = TrainingJob

    def templates(self, job: TrainingJob) -> Iterator[PodTemplate]:
        """Each role's template. Workers hear the object's own metadata, the others only their template's."""
        for field, name, role in roles_of(job):
            if role.template is None:
                continue
            outer = (job.metadata or NO_METADATA) if name.lower() == WORKER else inject_key_only(job.metadata)
            levels = (outer, role.template.metadata or NO_METADATA)
            yield PodTemplate(("spec", field, name, "template"), role.template, levels, name=name, told_by=NOBODY)

    def resolve_group(self, _job: TrainingJob, targets: Targets, _context: Context) -> Targets:
        """Their Pods have no index that a field can refer to."""
        return unindexed(targets)

    def object_edits(self, job: TrainingJob, targets: Targets, _context: Context) -> Findings:
        """Who hears the object's own metadata, and whether the replicas are whole slices."""
        roles = {name: (field, role) for field, name, role in roles_of(job) if role.template is not None}
        if not any(name.lower() == WORKER for name in roles):
            check_reach(
                job.metadata, next((("spec", field, name, "template") for name, (field, _) in roles.items()), None)
            )
        if TYPE in annotations_of(job.metadata):
            yield from _without(roles)
        yield from worker_ids(targets)
        yield from whole_slices(_pods(roles, targets))


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
    versions: tuple[str, ...] = ("v1", "v2beta1")


PYTORCHJOB: Final = PyTorchJob()
TFJOB: Final = TFJob()
MPIJOB: Final = MPIJob()
