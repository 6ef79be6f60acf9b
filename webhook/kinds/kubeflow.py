"""PyTorchJob, TFJob, MPIJob: replicas by role, whose operators set all but the devices. Pure."""

from collections.abc import Iterator

from webhook import slices
from webhook.annotations import INJECT, TYPE
from webhook.kinds.workload import Findings, Setting, Target, Targets, Workload, apart, check_reach
from webhook.messages import Denied, Warn
from webhook.pod import NO_METADATA, Metadata, Template, View, annotations_of
from webhook.resolution import Place, Worker

WORKER = "worker"
LEADS = ("master", "chief")
"""Roles that train like the workers do, beside those that only start them."""
ALONE = ("launcher",)


class Role(View, frozen=True, gc=False):
    replicas: int | None = None
    template: Template | None = None


Roles = dict[str, Role | None]


class TrainingSpec(View, frozen=True, gc=False):
    pytorchReplicaSpecs: Roles | None = None
    tfReplicaSpecs: Roles | None = None
    mpiReplicaSpecs: Roles | None = None


class TrainingJob(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: TrainingSpec | None = None


NO_TEMPLATE = Template()
FIELDS = TrainingSpec.__struct_fields__


def roles_of(job: TrainingJob) -> Iterator[tuple[str, str, Role]]:
    """(field, name, role) of each role; names in any case, as their operators take them."""
    for field in FIELDS:
        for name, role in (getattr(job.spec, field, None) or {}).items():
            if role is not None:
                yield field, name, role


def places(job: TrainingJob) -> Iterator[Place]:
    """Each role's template. Workers hear the object's own metadata, the others only their template's."""
    for field, name, role in roles_of(job):
        if role.template is None:
            continue
        outer = (job.metadata or NO_METADATA) if name.lower() == WORKER else apart(job.metadata)
        levels = (outer, role.template.metadata or NO_METADATA)
        yield Place(("spec", field, name, "template"), role.template, levels, name=name)


def facts(_job: TrainingJob, targets: Targets, _setting: Setting) -> Targets:
    """The Pods have no index that a field can refer to."""
    nobody = Worker(subdomain=None, indexed=False)
    return [Target(t.place, slices.with_worker(t.place, t.resolution, nobody)) for t in targets]


def findings(job: TrainingJob, targets: Targets, _setting: Setting) -> Findings:
    """Who hears the object's own metadata, and whether the replicas are whole slices."""
    roles = {name: (field, role) for field, name, role in roles_of(job) if role.template is not None}
    if not any(name.lower() == WORKER for name in roles):
        check_reach(job.metadata, next((("spec", field, name, "template") for name, (field, _) in roles.items()), None))
    if TYPE in annotations_of(job.metadata):
        yield from _without(roles)
    yield from _whole_slices(roles, targets)


def _whole_slices(roles: dict[str, tuple[str, Role]], targets: Targets) -> Iterator[Warn]:
    """Roles of one type may make up a slice together, as a master and its workers do."""
    replicas: dict[str, int] = {}
    for target in targets:
        hardware, name = target.resolution.accelerator, target.place.name
        if hardware.hosts > 1 and name.lower() in ALONE:
            raise Denied("one-pod", where=name, value=hardware.name, hosts=hardware.hosts, what=f"a {name}")
        number = roles[name][1].replicas
        replicas[hardware.name] = replicas.get(hardware.name, 0) + (1 if number is None else number)
    for hardware in dict.fromkeys(t.resolution.accelerator for t in targets):
        if hardware.hosts > 1:
            yield Warn("no-worker-ids", {"type": hardware.name})
        if replicas[hardware.name] % hardware.hosts:
            found = {"replicas": replicas[hardware.name], "type": hardware.name, "hosts": hardware.hosts}
            yield Warn("replicas-not-slices", found)


def _without(roles: dict[str, tuple[str, Role]]) -> Iterator[Warn]:
    """A master that trains beside the workers, and has none of their devices."""
    for name, (_, role) in roles.items():
        said = annotations_of((role.template or NO_TEMPLATE).metadata)
        if name.lower() in LEADS and TYPE not in said and said.get(INJECT) != "false":
            yield Warn("role-without", {"role": name})


def _workload(kind: str, plural: str, *versions: str) -> Workload:
    return Workload(
        group="kubeflow.org",
        kind=kind,
        plural=plural,
        versions=versions,
        view=TrainingJob,
        places=places,
        facts=facts,
        findings=findings,
    )


PYTORCHJOB = _workload("PyTorchJob", "pytorchjobs", "v1")
TFJOB = _workload("TFJob", "tfjobs", "v1")
MPIJOB = _workload("MPIJob", "mpijobs", "v1", "v2beta1")
