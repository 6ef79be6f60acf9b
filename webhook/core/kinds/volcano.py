"""Volcano Job: tasks under one scheduler, one queue and one gang. Pure.

Its schema hardly restricts its fields, so any of them may have any type. Volcano holds a gang back until the cluster
has the requested resources, so a TPU node pool at zero never scales up: a TPU task turns gang scheduling off.
Source: https://github.com/meta-pytorch/torchx/pull/473
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, final

from webhook.core import scheduling
from webhook.core.annotations import INJECT, QUEUE, SCHEDULER, TYPE
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.catalogue.families import TPU_RESOURCE
from webhook.core.kinds.kind import (
    Context,
    Findings,
    Kind,
    Target,
    Targets,
    one_slice_of,
    unindexed,
    whole_slices,
    worker_ids,
)
from webhook.core.messages import LONGEST_VALUE, Denied, Warn, quoted
from webhook.core.patch import Edit, Put
from webhook.core.rules.detect import resources
from webhook.core.schema import volcano as schema
from webhook.core.schema.pod import NO_METADATA, NO_SPEC
from webhook.core.schema.volcano import NO_JOB, Task
from webhook.core.slice_keys import VOLCANO_JOB, VOLCANO_TASK, SliceKeys
from webhook.core.template import NOBODY, PodTemplate, annotations_of, labels_of

LEGACY_RESOURCES: Final = "cloud-tpus.google.com/"
DEFAULT_QUEUE: Final = "default"
"""What the API server fills in.

Source: https://github.com/volcano-sh/apis/blob/v1.14.0/pkg/apis/batch/v1alpha1/job.go
"""


@final
@dataclass(frozen=True)
class Wish:
    """What the tasks together request from Volcano; None if no task requests anything."""

    scheduler: str | None = None
    queue: str | None = None


def tasks_of(job: schema.VolcanoJob) -> Iterator[tuple[int, Task]]:
    """The tasks, with their indexes."""
    for index, task in enumerate((job.spec or NO_JOB).tasks or ()):
        if task is not None:
            yield index, task


def _wish(targets: Targets) -> Wish:
    asked = [
        scheduling.wanted(r.request, r.accelerator.name, r.namespace, r.site) for r in (t.resolution for t in targets)
    ]
    return Wish(
        scheduler=_one(SCHEDULER, (scheduler for scheduler, _ in asked)),
        queue=_one(QUEUE, (queue for _, queue in asked)),
    )


def _one(key: str, values: Iterable[str | None]) -> str | None:
    """The one value common to all tasks that have one."""
    found = list(dict.fromkeys(value for value in values if value))
    if len(found) > 1:
        raise Denied("one-for-all-tasks", where=key, value=found[0], other=quoted(found[1]))
    return found[0] if found else None


def _detected(job: schema.VolcanoJob, context: Context) -> bool:
    """Whether the site applies the rule to TPUs that some task requests without our annotations."""
    return any(
        _is_tpu(resource)
        for template in VOLCANOJOB.templates(job)
        if not any(INJECT in level or TYPE in level for level in map(annotations_of, template.levels))
        for resource in resources(template.spec, context.site)
    )


def _is_tpu(resource: str) -> bool:
    return resource == TPU_RESOURCE or resource.startswith(LEGACY_RESOURCES)


def _gang_off(job: schema.VolcanoJob, scheduler: str, *, asked: bool, stored: bool) -> Findings:
    """Pods start at once, whatever the cluster has; and no success before all have succeeded, since with minAvailable 0
    Volcano considers a Job complete even if every Pod failed.

    Volcano replaces a Job's minAvailable 0 by its tasks' sum, so each task needs its own.
    Source: https://github.com/volcano-sh/volcano/blob/master/pkg/webhooks/admission/jobs/mutate/mutate_job.go
    Source: https://github.com/volcano-sh/volcano/blob/master/pkg/webhooks/admission/jobs/validate/admit_job.go
    """
    spec = job.spec or NO_JOB
    replicas = 0
    for index, task in tasks_of(job):
        replicas += task.replicas or 0
        yield Put(("spec", "tasks", index, "minAvailable"), 0)
        template = (task.template and task.template.spec) or NO_SPEC
        if template.schedulerName == scheduling.VOLCANO:  # a task's own value takes precedence over the Job's
            yield Put(("spec", "tasks", index, "template", "spec", "schedulerName"), scheduler)
    yield Put(("spec", "minAvailable"), 0)
    if spec.minSuccess is None and replicas > 0:
        yield Put(("spec", "minSuccess"), replicas)
    elif stored and replicas and spec.minSuccess != replicas:  # Volcano lets replicas change, and minSuccess not
        yield Warn("min-success", {"number": spec.minSuccess, "replicas": replicas})
    yield from _scheduler(job, scheduler, warn=asked)
    if not asked and not _ours(spec.schedulerName, scheduler):
        yield Warn("tpu-scheduler-kept", {"name": spec.schedulerName})
    yield Warn("gang-off")


def _scheduler(job: schema.VolcanoJob, wanted: str, warn: bool) -> Iterator[Edit | Warn]:
    """The Job's schedulerName, unless Kueue or the user chose."""
    present = (job.spec or NO_JOB).schedulerName
    if wanted != scheduling.DEFAULT and scheduling.kueue_managed([labels_of(job.metadata)]):
        yield Warn("scheduler-kueue", {"wanted": wanted})
    elif _ours(present, wanted):
        yield Put(("spec", "schedulerName"), wanted)
    elif warn:
        yield Warn("scheduler-kept", {"name": present, "wanted": wanted})


def _ours(present: str | None, wanted: str) -> bool:
    """Whether we may set schedulerName: Volcano clients write `volcano` by default."""
    return present in (None, "", scheduling.VOLCANO, scheduling.DEFAULT, wanted)


def _pods(job: schema.VolcanoJob, targets: Targets) -> Iterator[tuple[Accelerator, int]]:
    """Each task's accelerator and Pods: TorchX has one task for each Pod."""
    tasks = dict(tasks_of(job))
    for target in targets:
        index = target.template.path[2]
        assert isinstance(index, int)
        yield target.resolution.accelerator, tasks[index].replicas or 0


def _foreign_queue(wish: Wish, targets: Targets, context: Context) -> Findings:
    """The queue of another scheduler, which reads it from the Pods."""
    queue, scheduler = wish.queue or "", wish.scheduler or ""
    key = context.site.queues.get(scheduler)
    if key is None or key.where == "workload":
        yield Warn("queue-unused", {"name": scheduler[:LONGEST_VALUE]})
        return
    for target in targets:
        if not scheduling.queue_chosen(target.template.view.metadata, key):
            yield scheduling.queue_edit((*target.template.path, "metadata"), queue, key)


@final
class VolcanoJob(Kind[schema.VolcanoJob]):
    """A Volcano Job."""

    group = "batch.volcano.sh"
    kind = "Job"
    plural = "jobs"
    versions: tuple[str, ...] = ("v1alpha1",)
    view = schema.VolcanoJob
    pods = "distinct"
    decides_children = False
    reapply = "immutable"

    def templates(self, job: schema.VolcanoJob) -> Iterator[PodTemplate]:
        """The pod template of each task. Scheduler and queue belong to the Job."""
        for index, task in tasks_of(job):
            if task.template is not None:
                yield PodTemplate(
                    path=("spec", "tasks", index, "template"),
                    view=task.template,
                    levels=(job.metadata or NO_METADATA, task.template.metadata or NO_METADATA),
                    name=f"task {quoted(task.name or index)}",
                    owned_scheduling=True,
                    worker_ids_by=NOBODY,
                )

    def object_edits(self, job: schema.VolcanoJob, targets: Targets, context: Context) -> Findings:
        """The Job's scheduler, queue and gang."""
        wish, asked = _wish(targets), any(t.resolution.request.scheduler for t in targets)
        yield from whole_slices(_pods(job, targets))
        yield from worker_ids(targets)
        tpu = any(t.resolution.accelerator.slice is not None for t in targets) or _detected(job, context)
        if tpu and wish.scheduler != scheduling.VOLCANO:
            stored = any(t.resolution.stored for t in targets)
            yield from _gang_off(job, wish.scheduler or scheduling.DEFAULT, asked=asked, stored=stored)
        elif wish.scheduler is not None:
            yield from _scheduler(job, wish.scheduler, warn=asked)
        if wish.queue is not None and wish.scheduler not in (None, scheduling.VOLCANO, scheduling.DEFAULT):
            yield from _foreign_queue(wish, targets, context)
        elif wish.queue is not None and (job.spec or NO_JOB).queue in (None, "", DEFAULT_QUEUE):
            yield Put(("spec", "queue"), wish.queue)

    def slice_keys(
        self, job: schema.VolcanoJob, targets: Targets, _context: Context
    ) -> Callable[[Target], SliceKeys | None]:
        """The Job is a slice; or each task is, if each of a type has as many replicas as the type has hosts."""
        pods = list(_pods(job, targets))
        if one_slice_of(pods) is not None:
            return lambda _target: VOLCANO_JOB
        mixed = {hardware for hardware, number in pods if number != hardware.hosts}
        return lambda target: None if target.resolution.accelerator in mixed else VOLCANO_TASK

    def resolve_group(self, _job: schema.VolcanoJob, targets: Targets, _context: Context) -> Targets:
        """Its Pods have no index that a field can refer to."""
        return unindexed(targets)


VOLCANOJOB: Final = VolcanoJob()
