"""batch/v1 Job, and what the Job template of any kind needs for a multi-host slice. Pure."""

from collections.abc import Callable, Iterator
from typing import Final, final

from webhook.core import scheduling, slices
from webhook.core.kinds.kind import Context, Findings, Kind, Target, Targets, divided_ids, host_names
from webhook.core.messages import Denied, Warn, quoted
from webhook.core.patch import Edit, Path, Put
from webhook.core.resolution import Resolution
from webhook.core.schema import job as schema
from webhook.core.schema.job import JobSpec
from webhook.core.schema.pod import NO_METADATA, Metadata
from webhook.core.slice_keys import BY_POD, SliceKeys
from webhook.core.slice_keys import JOB as JOB_KEYS
from webhook.core.template import PodTemplate, annotations_of

MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
"""Kueue may start the Job with fewer Pods: https://kueue.sigs.k8s.io/docs/tasks/run/jobs/#partial-admission"""


def hosts_hint(spec: JobSpec | None) -> int | None:
    """The number of Pods that the user set, if it is more than the API's default."""
    number = spec and (spec.parallelism or spec.completions)
    return number if number and number > 1 else None


def with_hosts(target: Target, name: str | None) -> Target:
    """The target with its host names; `name` is the Job's, if it already has one."""
    subdomain = target.template.spec.subdomain or None
    resolution = slices.with_worker(target.template, target.resolution, slices.job_worker(subdomain, alone=True))
    if resolution.worker is not None and resolution.multi_host and subdomain is None and _unnamed(target):
        hardware, where = resolution.accelerator, _dotted((*target.template.path, "spec", "subdomain"))
        selector = f"job-name: {quoted(name)}" if name else "a label of the pod template"
        raise Denied("needs-service", where=where, type=hardware.name, hosts=hardware.hosts, selector=selector)
    return Target(target.template, resolution)


def _unnamed(target: Target) -> bool:
    """Whether the user does not set the host names."""
    return slices.HOSTNAMES in slices.unset(target.resolution)


def indexed_edits(resolution: Resolution, spec: JobSpec | None, path: Path, defaulted: bool) -> Iterator[Edit | Warn]:
    """parallelism = completions = hosts, Indexed; any other number is denied.

    `defaulted`: the API server fills parallelism 1, completions 1 and NonIndexed in, so those count as unset.
    Source: https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/apis/batch/v1/defaults.go
    """
    spec = spec or JobSpec()
    hardware = resolution.accelerator
    for field in ("parallelism", "completions"):
        number = getattr(spec, field)
        if number == hardware.hosts:
            continue
        if resolution.stored and number not in (None, 1):  # scaled down or up, or paused with 0
            if number:
                facts = {"field": field, "number": number, "type": hardware.name, "hosts": hardware.hosts}
                yield Warn("resized", facts)
            continue
        if number is not None and not (defaulted and number == 1):
            where = _dotted((*path, field))
            raise Denied("hosts-conflict", where=where, value=number, type=hardware.name, hosts=hardware.hosts)
        yield Put((*path, field), hardware.hosts)
    mode = spec.completionMode
    if mode == "Indexed":
        return
    if mode is not None and not (defaulted and mode == "NonIndexed"):
        where = _dotted((*path, "completionMode"))
        raise Denied("not-indexed", where=where, value=mode, type=hardware.name, hosts=hardware.hosts)
    yield Put((*path, "completionMode"), "Indexed")


def _dotted(path: Path) -> str:
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in path).removeprefix(".")


def one_slice(target: Target, metadata: Metadata | None, spec: JobSpec | None, path: Path) -> Findings:
    """What a Job with this metadata and spec, or a Job template at `path`, needs for several hosts."""
    resolution, hardware = target.resolution, target.resolution.accelerator
    if not resolution.multi_host:
        return
    minimum = annotations_of(metadata).get(MIN_PARALLELISM)
    if minimum is not None:
        where = f"{_dotted((*path, 'metadata', 'annotations'))} {MIN_PARALLELISM}"
        raise Denied("job-shrinks", where=where, value=minimum, type=hardware.name, hosts=hardware.hosts)
    yield from indexed_edits(resolution, spec, (*path, "spec"), defaulted=True)
    if not target.template.spec.subdomain and _unnamed(target):
        yield Warn("no-subdomain", {"type": hardware.name})
    yield from divided_ids(target)
    if resolution.scheduling.volcano:
        yield from min_member(metadata, (*path, "metadata"), hardware.hosts)


def named_hosts(target: Target, metadata: Metadata | None, *ends: str) -> Iterator[Warn]:
    """Checks the names of a slice's hosts: derived from the Job's own name, or from another's plus `ends`."""
    resolution = target.resolution
    if resolution.multi_host and not resolution.stored:
        yield from host_names(metadata, *ends, resolution.accelerator.hosts - 1)


def min_member(metadata: Metadata | None, path: Path, hosts: int) -> Iterator[Edit]:
    """Volcano creates one PodGroup per Job; this makes it a gang, unless the Pods already have a group."""
    if annotations_of(metadata).get(scheduling.MIN_MEMBER) is None:
        yield Put((*path, "annotations", scheduling.MIN_MEMBER), str(hosts))


def job_keys(spec: JobSpec | None) -> SliceKeys:
    """The labels of a Job's Pods. With a selector by hand they have none of the controller's own.

    Source: https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/registry/batch/job/strategy.go (generateSelector)
    """
    return BY_POD if spec is not None and spec.manualSelector else JOB_KEYS


@final
class Job(Kind[schema.Job]):
    """A batch/v1 Job."""

    group = "batch"
    kind = "Job"
    plural = "jobs"
    view = schema.Job
    pods = "alike"
    decides_children = False
    child = True
    reapply = "immutable"

    def templates(self, job: schema.Job) -> list[PodTemplate]:
        """spec.template."""
        if job.spec is None or job.spec.template is None:
            return []
        template = job.spec.template
        levels = (job.metadata or NO_METADATA, template.metadata or NO_METADATA)
        return [PodTemplate(("spec", "template"), template, levels, hosts_hint=hosts_hint(job.spec))]

    def resolve_group(self, job: schema.Job, targets: Targets, _context: Context) -> Targets:
        """The hosts of a slice find each other through the headless Service that `subdomain` names."""
        name = (job.metadata or NO_METADATA).name
        return [with_hosts(target, name) for target in targets]

    def slice_keys(self, job: schema.Job, _targets: Targets, _context: Context) -> Callable[[Target], SliceKeys | None]:
        """It is a slice."""
        keys = job_keys(job.spec)
        return lambda _target: keys

    def object_edits(self, job: schema.Job, targets: Targets, _context: Context) -> Findings:
        """The Job's own fields, for a multi-host slice."""
        for target in targets:
            yield from one_slice(target, job.metadata, job.spec, ())
            yield from named_hosts(target, job.metadata)


JOB: Final = Job()
