"""The parts of a Volcano Job that we look at. A typed view, nothing else."""

from webhook.pod import Metadata, Template, View


class Task(View, frozen=True, gc=False):
    name: str | None = None
    replicas: int | None = None
    minAvailable: int | None = None
    template: Template | None = None


class VolcanoJobSpec(View, frozen=True, gc=False):
    tasks: list[Task | None] | None = None
    minAvailable: int | None = None
    minSuccess: int | None = None
    schedulerName: str | None = None
    queue: str | None = None


class VolcanoJob(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: VolcanoJobSpec | None = None


NO_JOB = VolcanoJobSpec()
