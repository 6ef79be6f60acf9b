"""The parts of a batch/v1 Job that we look at. A typed view, nothing else."""

from webhook.core.schema.pod import Metadata, Name, Number, Template, View


class JobSpec(View, frozen=True, gc=False):
    parallelism: Number | None = None
    completions: Number | None = None
    completionMode: Name | None = None
    manualSelector: bool | None = None
    template: Template | None = None


class JobTemplate(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: JobSpec | None = None


class Job(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: JobSpec | None = None


NO_TEMPLATE = JobTemplate()
