"""The parts of RayCluster, RayJob and RayService that we look at. Typed views, nothing else."""

from webhook.core.schema.pod import Metadata, Name, Number, Template, View


class HeadGroup(View, frozen=True, gc=False):
    template: Template | None = None


class WorkerGroup(View, frozen=True, gc=False):
    groupName: Name | None = None
    replicas: Number | None = None
    minReplicas: Number | None = None
    maxReplicas: Number | None = None
    numOfHosts: Number | None = None
    template: Template | None = None


class UpgradeStrategy(View, frozen=True, gc=False):
    type: Name | None = None


class RayClusterSpec(View, frozen=True, gc=False):
    upgradeStrategy: UpgradeStrategy | None = None
    enableInTreeAutoscaling: bool | None = None
    headGroupSpec: HeadGroup | None = None
    workerGroupSpecs: list[WorkerGroup | None] | None = None


class RayCluster(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: RayClusterSpec | None = None


class RayJobSpec(View, frozen=True, gc=False):
    rayClusterSpec: RayClusterSpec | None = None


class RayJob(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: RayJobSpec | None = None


class RayServiceSpec(View, frozen=True, gc=False):
    rayClusterConfig: RayClusterSpec | None = None


class RayService(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: RayServiceSpec | None = None


AnyRay = RayCluster | RayJob | RayService
NO_HEAD = HeadGroup()
NO_CLUSTER = RayClusterSpec()
