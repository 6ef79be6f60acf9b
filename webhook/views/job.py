"""The parts of a batch/v1 Job that we look at. A typed view, nothing else."""

from webhook.pod import Metadata, Template, View


class JobSpec(View, frozen=True, gc=False):
    parallelism: int | None = None
    completions: int | None = None
    completionMode: str | None = None
    template: Template | None = None


class JobTemplate(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: JobSpec | None = None


class Job(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: JobSpec | None = None


NO_TEMPLATE = JobTemplate()
