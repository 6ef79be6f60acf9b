"""The parts of a JobSet that we look at. A typed view, nothing else."""

from webhook.core.schema.job import JobTemplate
from webhook.core.schema.pod import Metadata, Name, Number, View

DEFAULT_GROUP = "default"


class DependsOn(View, frozen=True, gc=False):
    name: Name = ""
    status: Name = ""


class ReplicatedJob(View, frozen=True, gc=False):
    name: Name = ""
    groupName: Name | None = None
    replicas: Number | None = None
    template: JobTemplate | None = None
    dependsOn: list[DependsOn] | None = None

    @property
    def group(self) -> str:
        return self.groupName or DEFAULT_GROUP

    @property
    def jobs(self) -> int:
        """How many Jobs it makes: one if unset."""
        return 1 if self.replicas is None else self.replicas


class Network(View, frozen=True, gc=False):
    enableDNSHostnames: bool | None = None
    subdomain: Name | None = None


class Coordinator(View, frozen=True, gc=False):
    replicatedJob: Name = ""
    jobIndex: Number | None = None
    podIndex: Number | None = None


class JobSetSpec(View, frozen=True, gc=False):
    replicatedJobs: list[ReplicatedJob] | None = None
    network: Network | None = None
    coordinator: Coordinator | None = None


NO_SPEC = JobSetSpec()
NO_NETWORK = Network()


class JobSet(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: JobSetSpec | None = None
