"""The parts of a Volcano Job that we look at. A typed view, nothing else."""

from webhook.core.schema.pod import Metadata, Name, Number, Template, Text, View


class Task(View, frozen=True, gc=False):
    name: Name | None = None
    replicas: Number | None = None
    minAvailable: Number | None = None
    template: Template | None = None


class VolcanoJobSpec(View, frozen=True, gc=False):
    tasks: list[Task | None] | None = None
    minAvailable: Number | None = None
    minSuccess: Number | None = None
    schedulerName: Text | None = None
    queue: Name | None = None


class VolcanoJob(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: VolcanoJobSpec | None = None


NO_JOB = VolcanoJobSpec()
