"""RayCluster, RayJob, RayService: a head and groups of workers, whose resources KubeRay reads from the templates. Pure.

Ids of TPU workers are set by the operator or by its own webhook, so we do not set TPU_WORKER_*.
Source: https://github.com/ai-on-gke/kuberay-tpu-webhook
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar, final

from webhook.core.kinds.kind import Context, Findings, Kind, Target, Targets, check_reach, inject_key_only
from webhook.core.messages import Denied, Warn, quoted
from webhook.core.patch import Append, Edit, Path, Put
from webhook.core.resolution import stripped_view
from webhook.core.rules.rule import container_path
from webhook.core.schema import ray as schema
from webhook.core.schema.pod import NO_METADATA, Container
from webhook.core.schema.ray import (
    NO_CLUSTER,
    NO_HEAD,
    HeadGroup,
    RayClusterSpec,
    RayJobSpec,
    RayServiceSpec,
    WorkerGroup,
)
from webhook.core.slice_keys import BY_POD, SliceKeys
from webhook.core.template import KUBERAY, PodTemplate, containers_of

HEAD: Final = "headGroupSpec"
V = TypeVar("V", bound=schema.AnyRay)


def cluster_of(ray: schema.AnyRay) -> tuple[Path, RayClusterSpec]:
    """The path of the cluster in the object, and the cluster."""
    if isinstance(ray, schema.RayJob):
        return ("spec", "rayClusterSpec"), (ray.spec and ray.spec.rayClusterSpec) or NO_CLUSTER
    if isinstance(ray, schema.RayService):
        return ("spec", "rayClusterConfig"), (ray.spec and ray.spec.rayClusterConfig) or NO_CLUSTER
    return ("spec",), ray.spec or NO_CLUSTER


def groups_of(cluster: RayClusterSpec) -> Iterator[tuple[int, WorkerGroup]]:
    """The worker groups, with their indexes."""
    for index, group in enumerate(cluster.workerGroupSpecs or ()):
        if group is not None:
            yield index, group


SLICES: Final = "MEGASCALE_NUM_SLICES"


def _slices(target: Target, group: WorkerGroup, *, autoscaled: bool) -> Iterator[Edit | Warn]:
    """How many replicas of a group are slices of one job; KubeRay's TPU webhook fills in the rest.

    Source: https://github.com/ai-on-gke/kuberay-tpu-webhook/blob/main/main.go
    """
    shape, number = target.resolution.accelerator.slice, group.replicas or 0
    if target.resolution.request.multislice is not True or shape is None or not shape.multislice:
        return
    if number < 2:
        yield Warn("multislice-unused", {"why": f"{target.template.name} has fewer than two replicas"})
        return
    untold = [h for h in target.resolution.device_containers if not _says_slices(h.container)]
    if untold and autoscaled and group.minReplicas != group.maxReplicas:
        yield Warn("slices-autoscaled", {"name": target.template.name, "number": number})
    for device_container in untold:
        path = (*target.template.path, *container_path(device_container), "env")
        yield Append(path, {"name": SLICES, "value": str(number)}, key=("name",))


def _says_slices(container: Container) -> bool:
    return any(e is not None and e.name == SLICES for e in container.env or ())


def _stripped(cluster: RayClusterSpec) -> RayClusterSpec:
    """The cluster without anything that injection writes."""
    head, groups = (cluster.headGroupSpec or NO_HEAD).template, cluster.workerGroupSpecs
    return RayClusterSpec(
        headGroupSpec=None if head is None else HeadGroup(template=stripped_view(head)),
        workerGroupSpecs=None if groups is None else [None if g is None else _stripped_group(g) for g in groups],
    )


def _stripped_group(group: WorkerGroup) -> WorkerGroup:
    template = None if group.template is None else stripped_view(group.template)
    return WorkerGroup(groupName=group.groupName, replicas=group.replicas, template=template)


class Ray(Kind[V]):
    """What the three kinds have in common: a cluster."""

    group = "ray.io"
    reapply = "restored"
    counts_slices = True

    def templates(self, ray: V) -> Iterator[PodTemplate]:
        """The head, which sees only its own template's annotations, and each worker group."""
        path, cluster = cluster_of(ray)
        head = (cluster.headGroupSpec or NO_HEAD).template
        if head is not None:
            levels = (inject_key_only(ray.metadata), head.metadata or NO_METADATA)
            yield PodTemplate((*path, HEAD, "template"), head, levels, name=HEAD, worker_ids_by=KUBERAY)
        for index, group in groups_of(cluster):
            if group.template is not None:
                yield PodTemplate(
                    path=(*path, "workerGroupSpecs", index, "template"),
                    view=group.template,
                    levels=(ray.metadata or NO_METADATA, group.template.metadata or NO_METADATA),
                    name=f"worker group {quoted(group.groupName or index)}",
                    hosts_hint=group.numOfHosts if group.numOfHosts and group.numOfHosts > 1 else None,
                    worker_ids_by=KUBERAY,
                )

    def slice_keys(self, _ray: V, _targets: Targets, _context: Context) -> Callable[[Target], SliceKeys | None]:
        """Its Pods' own labels say it: a replica of a worker group is a slice, and groups grow and shrink."""
        return lambda _target: BY_POD

    def object_edits(self, ray: V, targets: Targets, _context: Context) -> Findings:
        """One replica of a worker group is one slice."""
        path, cluster = cluster_of(ray)
        groups = dict(groups_of(cluster))
        if not any(group.template for group in groups.values()):
            check_reach(ray.metadata, (*path, HEAD, "template"))
        for target in targets:
            hardware, index = target.resolution.accelerator, target.template.path[-2]
            if isinstance(index, int):
                yield from _slices(target, groups[index], autoscaled=bool(cluster.enableInTreeAutoscaling))
            if hardware.hosts == 1:
                continue
            if not isinstance(index, int):
                raise Denied("one-pod", where=HEAD, value=hardware.name, hosts=hardware.hosts, what="a Ray head")
            number = groups[index].numOfHosts
            field = (*path, "workerGroupSpecs", index, "numOfHosts")
            if number in (None, 1):
                yield Put(field, hardware.hosts)
            elif number != hardware.hosts:
                where = f"{target.template.name}: numOfHosts"
                raise Denied("hosts-conflict", where=where, value=number, type=hardware.name, hosts=hardware.hosts)

    def rolls(self, _ray: V) -> bool:
        """Not if KubeRay has already made the Pods."""
        return False

    def hints(self, ray: V) -> Iterator[Path]:
        """The hosts of each group, and its number of slices: an autoscaler that changes the replicas must not change a
        template, for which KubeRay may replace every Pod."""
        path, cluster = cluster_of(ray)
        for index, group in groups_of(cluster):
            yield (*path, "workerGroupSpecs", index, "numOfHosts")
            for list_name, i, container in containers_of(group.template.spec if group.template else None):
                if _says_slices(container):
                    yield (*path, "workerGroupSpecs", index, "template", "spec", list_name, i, "env")

    def slices(self, ray: V, target: Target) -> int | None:
        """Each replica of a worker group is one."""
        index = target.template.path[-2]
        return dict(groups_of(cluster_of(ray)[1]))[index].replicas if isinstance(index, int) else None


@final
class RayCluster(Ray[schema.RayCluster]):
    """A RayCluster."""

    kind = "RayCluster"
    plural = "rayclusters"
    pods = "distinct"
    decides_children = False
    view = schema.RayCluster

    def rolls(self, ray: schema.RayCluster) -> bool:
        """Source: https://github.com/ray-project/kuberay/blob/v1.6.0/ray-operator/controllers/ray/raycluster_controller.go"""
        strategy = None if ray.spec is None else ray.spec.upgradeStrategy
        return strategy is not None and strategy.type == "Recreate"

    def stripped(self, ray: schema.RayCluster) -> schema.RayCluster:
        """Its cluster without anything that injection writes."""
        return schema.RayCluster(spec=_stripped(cluster_of(ray)[1]))


@final
class RayJob(Ray[schema.RayJob]):
    """A RayJob: a cluster, and what to run on it."""

    kind = "RayJob"
    plural = "rayjobs"
    pods = ""
    decides_children = True  # the Job that submits
    view = schema.RayJob

    def stripped(self, ray: schema.RayJob) -> schema.RayJob:
        """Its cluster without anything that injection writes."""
        return schema.RayJob(spec=RayJobSpec(rayClusterSpec=_stripped(cluster_of(ray)[1])))


@final
class RayService(Ray[schema.RayService]):
    """A RayService: a cluster that serves."""

    kind = "RayService"
    plural = "rayservices"
    pods = ""
    decides_children = False
    view = schema.RayService

    def rolls(self, _ray: schema.RayService) -> bool:
        """It makes a new cluster whenever `rayClusterConfig` changes.

        Source: https://github.com/ray-project/kuberay/blob/v1.6.0/ray-operator/controllers/ray/rayservice_controller.go
        """
        return True

    def stripped(self, ray: schema.RayService) -> schema.RayService:
        """Its cluster without anything that injection writes."""
        return schema.RayService(spec=RayServiceSpec(rayClusterConfig=_stripped(cluster_of(ray)[1])))


RAYCLUSTER: Final = RayCluster()
RAYJOB: Final = RayJob()
RAYSERVICE: Final = RayService()
