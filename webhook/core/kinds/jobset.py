"""JobSet: replicated Jobs whose TPU members form slices of one job. Pure.

A domain is the TPU replicated jobs of one groupName. JobSet counts Jobs for us: its Pods carry annotations with
the number of Jobs in the set, in the group and in the replicated job, and each Job's index in all three.
Source: https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/pkg/controllers/jobset_controller.go
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from webhook.core import slices
from webhook.core.devices import asked_amounts
from webhook.core.kinds.job import hosts_hint, indexed_edits, job_keys, min_member
from webhook.core.kinds.kind import Context, Findings, Kind, Target, Targets, divided_ids, host_names, inject_key_only
from webhook.core.messages import Denied, Warn, quoted
from webhook.core.patch import Edit, Path, Put
from webhook.core.resolution import Slices, Worker
from webhook.core.rules.environment import JOBSET_NAME_VARIABLE
from webhook.core.rules.node_pool import CHOICES, JOBSET_EXCLUSIVE, POOL_LABELS
from webhook.core.rules.nodes import pinned
from webhook.core.schema import jobset as schema
from webhook.core.schema.job import NO_TEMPLATE, JobSpec
from webhook.core.schema.jobset import DEFAULT_GROUP, NO_NETWORK, NO_SPEC, Network, ReplicatedJob
from webhook.core.schema.pod import NO_METADATA, Metadata, Template
from webhook.core.schema.pod import NO_SPEC as NO_POD_SPEC
from webhook.core.slice_keys import SliceKeys
from webhook.core.template import PodTemplate, annotations_of, controller_of, labels_of

OUR_GROUP: Final = "accel-tpu"
NODE_POOL: Final = POOL_LABELS["gke"]


@final
@dataclass(init=False)
class Member:
    """A replicated job whose Jobs are slices."""

    index: int
    job: ReplicatedJob
    target: Target

    def __init__(self, index: int, job: ReplicatedJob, target: Target) -> None:
        self.index = index
        self.job = job
        self.target = target


def replicated_jobs(jobset: schema.JobSet) -> Sequence[ReplicatedJob]:
    return (jobset.spec or NO_SPEC).replicatedJobs or ()


def _facts(target: Target, worker: Worker, found: Slices | None) -> Target:
    resolution = slices.with_worker(target.template, target.resolution, worker)
    return Target(target.template, resolution.with_slices_and_worker(found, resolution.worker))


def _check_hostnames(jobset: schema.JobSet, targets: Targets) -> None:
    if _network(jobset).enableDNSHostnames is not False:
        return
    for target in targets:
        if target.resolution.multi_host:
            raise Denied("no-hostnames", value=target.resolution.accelerator.name)


def _job_of(jobset: schema.JobSet, target: Target) -> tuple[int, ReplicatedJob]:
    index = target.template.path[2]
    assert isinstance(index, int)
    return index, replicated_jobs(jobset)[index]


def _domains(jobset: schema.JobSet, targets: Targets) -> list[list[Member]]:
    """The members of each group."""
    domains: dict[str, list[Member]] = {}
    for target in targets:
        if slices.eligible(target.resolution):
            member = Member(*_job_of(jobset, target), target)
            domains.setdefault(member.job.group, []).append(member)
    return list(domains.values())


def _split(jobset: schema.JobSet, targets: Targets) -> dict[int, Slices]:
    """The targets whose slices are separate jobs, if there is more than one multi-host slice."""
    members = [t for t in targets if t.resolution.multi_host]
    if sum(_job_of(jobset, t)[1].jobs for t in members) < 2:
        return {}
    return {id(t): slices.NO_SLICES for t in members if slices.split_on_gke(t.resolution)}


def _groups_of(jobset: schema.JobSet) -> Counter[str]:
    """The groups, and how many replicated jobs each has."""
    return Counter([job.group for job in replicated_jobs(jobset)])


def _check_domain(domain: Sequence[Member]) -> None:
    """The slices of one job must be identical, and run at the same time.

    Source: https://cloud.google.com/kubernetes-engine/docs/how-to/tpu-multislice
    """
    first, *others = domain
    names = {m.job.name for m in domain}
    for member in others:
        if member.target.resolution.accelerator != first.target.resolution.accelerator:
            raise Denied(
                "mixed-slices",
                where=member.target.template.name,
                value=member.target.described,
                other=f"{quoted(first.target.described)} ({first.target.template.name})",
            )
    for member in domain:
        for dependency in member.job.dependsOn or ():
            if dependency.name in names and dependency.status == "Complete":
                raise Denied("depends-on-slice", where=member.target.template.name, value=dependency.name)


def _count(jobset: schema.JobSet, groups: Counter[str], domain: Sequence[Member]) -> Slices:
    """The narrowest count that JobSet keeps of exactly this domain's Jobs."""
    if len(domain) == len(replicated_jobs(jobset)):
        return _slices(jobset, domain, slices.JOBS, slices.JOB)
    if len(domain) == 1:
        return _slices(jobset, domain, slices.JOBS_OF_REPLICATED_JOB, slices.JOB_OF_REPLICATED_JOB)
    if _group_name(groups, domain) is not None:
        return _slices(jobset, domain, slices.JOBS_OF_GROUP, slices.JOB_OF_GROUP)
    first = domain[0]
    raise Denied("uncountable-slices", where=first.target.template.name, value=first.job.group)


def _group_name(groups: Counter[str], domain: Sequence[Member]) -> str | None:
    """The groupName under which all Jobs belong to this domain: their own, or one that we set; None without one."""
    group = domain[0].job.group
    if groups[group] == len(domain):
        return group
    return OUR_GROUP if group == DEFAULT_GROUP and OUR_GROUP not in groups else None


def _slices(jobset: schema.JobSet, domain: Sequence[Member], number: str, index: str) -> Slices:
    """Worker 0 of slice 0 coordinates: the user's own coordinator if it is that Pod, else its host name.

    Slice 0 is the first existing Job: a member can have `replicas: 0`.
    """
    first = next(member.job for member in domain if member.job.jobs)
    counts = (slices.field(number), slices.field(index))
    own = (jobset.spec or NO_SPEC).coordinator
    if own is not None and own.replicatedJob == first.name and not own.jobIndex and not own.podIndex:
        return Slices(*counts, coordinator_path=slices.field(slices.COORDINATOR))
    return Slices(*counts, coordinator=slices.coordinator_host(_name(jobset), first.name, _subdomain(jobset)))


def _name(jobset: schema.JobSet) -> str:
    """The name, or with generateName the variable that will contain it: admission precedes name generation."""
    return (jobset.metadata and jobset.metadata.name) or f"$({JOBSET_NAME_VARIABLE})"


def _subdomain(jobset: schema.JobSet) -> str:
    return _network(jobset).subdomain or _name(jobset)


def _network(jobset: schema.JobSet) -> Network:
    return (jobset.spec or NO_SPEC).network or NO_NETWORK


def _groups(jobset: schema.JobSet, targets: Targets) -> Iterator[Edit]:
    groups = _groups_of(jobset)
    for domain in _domains(jobset, targets):
        counted_by_group = 1 < len(domain) < len(replicated_jobs(jobset))
        name = _group_name(groups, domain)
        if counted_by_group and name is not None and sum(m.job.jobs for m in domain) > 1:
            for member in domain:
                if member.job.group != name:
                    yield Put(("spec", "replicatedJobs", member.index, "groupName"), name)


def _replicas_for_hosts(jobset: schema.JobSet, targets: Targets) -> Iterator[Warn]:
    """A replica is a slice. A user who requests the chips directly, with as many replicas as a slice has hosts,
    probably takes it for a host."""
    for target in targets:
        hardware, (_, job) = target.resolution.accelerator, _job_of(jobset, target)
        spec = (job.template or NO_TEMPLATE).spec or JobSpec()
        if not job.jobs == hardware.hosts > 1 or spec.parallelism is not None or target.resolution.stored:
            continue
        if any(asked_amounts(h.container, hardware.resource) for h in target.resolution.device_containers):
            facts = {"name": target.template.name, "replicas": job.jobs, "hosts": hardware.hosts}
            yield Warn("replicas-are-slices", facts)


PROCESS_ID: Final = "JAX_PROCESS_ID"
"""Derived from the index in a Job, it is the same in every slice.

Source: https://github.com/kubeflow/trainer/issues/3537
"""

SUFFIX: Final = "xxxxx"
"""The suffix that makes a Pod name unique. JobSet includes it when it validates host names.

Source: https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/pkg/webhooks/jobset_webhook.go
"""


def _host_names(jobset: schema.JobSet, targets: Targets) -> Iterator[Warn]:
    """Checks the longest name, if hosts find each other by name."""
    for target in targets:
        resolution = target.resolution
        if not resolution.stored and (resolution.multi_host or resolution.slices is not None):
            _, job = _job_of(jobset, target)
            last = (max(job.jobs - 1, 0), resolution.accelerator.hosts - 1)
            yield from host_names(jobset.metadata, job.name, *last, SUFFIX)


def _placement(jobset: schema.JobSet, job: ReplicatedJob, target: Target, context: Context) -> Iterator[Edit]:
    """One Volcano gang per Job; or JobSet's exclusive placement, if the site config wants it: never both, since the
    gang waits for all Pods and exclusive placement holds followers back until the leader is placed.
    """
    index, _ = _job_of(jobset, target)
    path = ("spec", "replicatedJobs", index, "template", "metadata")
    own = (job.template or NO_TEMPLATE).metadata
    # Its webhook reads the Pod's annotation, which JobSet overwrites with ours from the Job template.
    everywhere = [annotations_of(m) for m in (jobset.metadata, own, target.template.view.metadata)]
    if target.resolution.scheduling.volcano:
        if not any(a.get(JOBSET_EXCLUSIVE) for a in everywhere):
            yield from min_member(own, path, target.resolution.accelerator.hosts)
        return
    if context.stored:  # what it was created with, whatever the site config says today
        yield Put((*path, "annotations", JOBSET_EXCLUSIVE), NODE_POOL)
        return
    config, resolution = context.site.config, target.resolution
    if config.placement != "jobset" or config.platform != "gke" or resolution.formed:
        return
    if not pinned(target.template, NODE_POOL) and not any(a.get(key) for a in everywhere for key in CHOICES):
        yield Put((*path, "annotations", JOBSET_EXCLUSIVE), NODE_POOL)


TRAINER: Final = "trainer"
NODE: Final = "node"
"""Kubeflow Trainer's name for the training step, and for the job of MPI's nodes, which has no step.

Source: https://github.com/kubeflow/trainer/blob/master/pkg/constants/constants.go
"""

PATHWAYS_HEAD: Final = "pathways-head"
"""It gets the PathwaysJob's annotations like the workers, but coordinates without chips.

Source: https://github.com/google/pathways-job/blob/main/internal/controller/pathwaysjob_controller.go
"""


def _of_helpers(jobset: schema.JobSet) -> Callable[[Metadata | None], Metadata]:
    """What a helper's Job says of it: with Pathways no more than its JobSet, of which it is a copy."""
    if _of_pathways(jobset):
        return inject_key_only
    return lambda metadata: metadata or NO_METADATA


def _of_pathways(jobset: schema.JobSet) -> bool:
    owner = controller_of(jobset.metadata)
    return owner is not None and owner.kind == "PathwaysJob"


def _works(jobset: schema.JobSet) -> Callable[[ReplicatedJob], bool]:
    """A test whether the JobSet's annotations apply to a replicated job: not to the helpers that a controller adds."""
    if _of_pathways(jobset):
        return lambda job: job.name != PATHWAYS_HEAD
    steps = [labels_of((job.template or NO_TEMPLATE).metadata).trainer_step for job in replicated_jobs(jobset)]
    if TRAINER not in steps:
        return lambda _job: True
    return lambda job: job.name == NODE or labels_of((job.template or NO_TEMPLATE).metadata).trainer_step == TRAINER


@final
class JobSet(Kind[schema.JobSet]):
    """A JobSet."""

    group = "jobset.x-k8s.io"
    kind = "JobSet"
    plural = "jobsets"
    versions: tuple[str, ...] = ("v1alpha2",)
    view = schema.JobSet
    pods = ""
    decides_children = True
    reapply = "immutable"
    counts_slices = True

    def templates(self, jobset: schema.JobSet) -> Iterator[PodTemplate]:
        """The pod template of each replicated job."""
        outer, beside = jobset.metadata or NO_METADATA, inject_key_only(jobset.metadata)
        works, own = _works(jobset), _of_helpers(jobset)
        for index, job in enumerate(replicated_jobs(jobset)):
            made = job.template or NO_TEMPLATE
            if made.spec is None or made.spec.template is None:
                continue
            template = made.spec.template
            above = (outer, made.metadata or NO_METADATA) if works(job) else (beside, own(made.metadata))
            yield PodTemplate(
                path=("spec", "replicatedJobs", index, "template", "spec", "template"),
                view=template,
                levels=(*above, template.metadata or NO_METADATA),
                name=f"replicatedJob {quoted(job.name)}",
                hosts_hint=hosts_hint(made.spec),
            )

    def resolve_group(self, jobset: schema.JobSet, targets: Targets, _context: Context) -> Targets:
        """Each target with its slices, if its domain has more than one, and its worker names."""
        _check_hostnames(jobset, targets)
        counted: dict[int, Slices] = {}
        groups = _groups_of(jobset)
        for domain in _domains(jobset, targets):
            if sum(m.job.jobs for m in domain) > 1:
                _check_domain(domain)
                found = _count(jobset, groups, domain)
                counted.update((id(m.target), found) for m in domain)
        counted |= _split(jobset, targets)
        worker = slices.job_worker(_subdomain(jobset), alone=True)
        return [_facts(target, worker, counted.get(id(target))) for target in targets]

    def object_edits(self, jobset: schema.JobSet, targets: Targets, context: Context) -> Findings:
        """Job fields, groups, gangs and exclusive placement."""
        yield from _groups(jobset, targets)
        yield from _host_names(jobset, targets)
        yield from _replicas_for_hosts(jobset, targets)
        if any(t.resolution.slices is not None and slices.says(t.resolution, PROCESS_ID) for t in targets):
            yield Warn("repeated-process-id")
        for target in targets:
            if target.resolution.multi_host:
                index, job = _job_of(jobset, target)
                path = ("spec", "replicatedJobs", index, "template")
                spec = (job.template or NO_TEMPLATE).spec
                yield from indexed_edits(target.resolution, spec, (*path, "spec"), defaulted=False)
                yield from _placement(jobset, job, target, context)
                yield from divided_ids(target)

    def slice_keys(
        self, jobset: schema.JobSet, _targets: Targets, _context: Context
    ) -> Callable[[Target], SliceKeys | None]:
        """Each Job is a slice."""
        return lambda target: job_keys((_job_of(jobset, target)[1].template or NO_TEMPLATE).spec)

    def slices(self, jobset: schema.JobSet, target: Target) -> int | None:
        """Each replica of a replicated job is one."""
        return _job_of(jobset, target)[1].jobs

    def defaults(self, jobset: schema.JobSet) -> Iterator[Edit]:
        """What JobSet's webhook fills in on CREATE but not on UPDATE: without it every second client-side apply fails.

        Source: https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/pkg/webhooks/jobset_webhook.go
        """
        for index, job in enumerate(replicated_jobs(jobset)):
            path: Path = ("spec", "replicatedJobs", index, "template", "spec")
            spec = (job.template or NO_TEMPLATE).spec or JobSpec()
            if spec.completionMode is None:
                yield Put((*path, "completionMode"), "Indexed")
            if ((spec.template or Template()).spec or NO_POD_SPEC).restartPolicy is None:
                yield Put((*path, "template", "spec", "restartPolicy"), "OnFailure")


JOBSET: Final = JobSet()
