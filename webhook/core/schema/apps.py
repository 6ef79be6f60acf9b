"""The parts of Deployments, ReplicaSets, StatefulSets and CronJobs that we look at. Typed views, nothing else."""

from webhook.core.schema.job import JobTemplate
from webhook.core.schema.pod import Metadata, Name, Number, Template, View


class Ordinals(View, frozen=True, gc=False):
    start: Number | None = None


class AppSpec(View, frozen=True, gc=False):
    replicas: Number | None = None
    template: Template | None = None
    serviceName: Name | None = None
    podManagementPolicy: Name | None = None
    ordinals: Ordinals | None = None

    @property
    def pods(self) -> int:
        """How many Pods it makes: one if unset."""
        return 1 if self.replicas is None else self.replicas


class App(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: AppSpec | None = None


class CronJobSpec(View, frozen=True, gc=False):
    jobTemplate: JobTemplate | None = None


NO_SPEC = AppSpec()
NO_CRON_SPEC = CronJobSpec()


class CronJob(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: CronJobSpec | None = None
