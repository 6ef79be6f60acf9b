"""The parts of PyTorchJob, TFJob and MPIJob that we look at. Typed views, nothing else."""

from webhook.core.schema.pod import Metadata, Name, Number, Template, View


class Role(View, frozen=True, gc=False):
    replicas: Number | None = None
    template: Template | None = None

    @property
    def pods(self) -> int:
        """How many Pods it has: one if unset."""
        return 1 if self.replicas is None else self.replicas


Roles = dict[Name, Role | None]


class TrainingSpec(View, frozen=True, gc=False):
    pytorchReplicaSpecs: Roles | None = None
    tfReplicaSpecs: Roles | None = None
    mpiReplicaSpecs: Roles | None = None
    runLauncherAsWorker: bool | None = None


class TrainingJob(View, frozen=True, gc=False):
    apiVersion: Name | None = None
    metadata: Metadata | None = None
    spec: TrainingSpec | None = None
