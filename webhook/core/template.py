"""A pod template and its position in its object: its metadata, its containers, and what is around it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from webhook.core.patch import Path
from webhook.core.schema.pod import (
    NO_LABELS,
    NO_SPEC,
    Annotations,
    Container,
    Labels,
    Metadata,
    OwnerReference,
    PodSpec,
    Template,
)

Placed = tuple[str, int, Container]
"""A container, with its list and its index there."""

FilledIn = tuple[str, int, str, str]
"""An amount that LimitRanger filled in: list and index of its container, "limits" or "requests", resource."""

GKE: Final = "GKE"
LEADER_WORKER_SET: Final = "LeaderWorkerSet"
KUBERAY: Final = "KubeRay's TPU webhook"
NOBODY: Final = "nobody"
"""What sets the worker ids of a slice's hosts, unless the site config leaves that to us.

Source: https://github.com/kubernetes-sigs/lws/blob/v0.8.0/pkg/utils/accelerators/tpu.go
Source: https://github.com/ai-on-gke/kuberay-tpu-webhook
"""


@final
@dataclass(init=False)
class PodTemplate:
    """A pod template, its position in its object, and what its kind knows about it."""

    path: Path
    view: Template
    levels: tuple[Metadata, ...]  # outermost first, the template's own last
    name: str  # of the replicated job, task, worker group
    hosts_hint: int | None  # parallelism, size or numOfHosts, if the user set one above 1
    owned_scheduling: bool  # a controller owns schedulerName and queue
    worker_ids_by: str  # what sets TPU_WORKER_ID and TPU_WORKER_HOSTNAMES of a slice's hosts

    def __init__(
        self,
        path: Path,
        view: Template,
        levels: tuple[Metadata, ...],
        *,
        name: str = "",
        hosts_hint: int | None = None,
        owned_scheduling: bool = False,
        worker_ids_by: str = GKE,
    ) -> None:
        self.path = path
        self.view = view
        self.levels = levels
        self.name = name
        self.hosts_hint = hosts_hint
        self.owned_scheduling = owned_scheduling
        self.worker_ids_by = worker_ids_by
        self.annotations = annotations_of(view.metadata)
        self.spec = view.spec or NO_SPEC
        self.containers = containers_of(view.spec)
        self.filled_in: tuple[FilledIn, ...] = ()

    @property
    def of_workload(self) -> bool:
        """Whether it is a Pod of a workload, whose template was validated when the workload was created."""
        return self.owned_scheduling and not self.path


def annotations_of(metadata: Metadata | None) -> Annotations:
    """The annotations; empty if they or their parent are missing."""
    return (metadata and metadata.annotations) or {}


def labels_of(metadata: Metadata | None) -> Labels:
    """The labels; empty if they or their parent are missing."""
    return (metadata and metadata.labels) or NO_LABELS


def controller_of(metadata: Metadata | None) -> OwnerReference | None:
    """The one owner that manages the object (`controller: true`), if any."""
    for owner in (metadata and metadata.ownerReferences) or ():
        if owner.controller:
            return owner
    return None


def kind_of(owner: OwnerReference) -> str:
    """An owner's kind with its API group, as `kubectl` spells it: `JobSet.jobset.x-k8s.io`, `Pod.`."""
    return f"{owner.kind}.{owner.apiVersion.rpartition('/')[0]}"


def containers_of(spec: PodSpec | None) -> list[Placed]:
    """Every container with its position; `spec.containers` first."""
    placed: list[Placed] = []
    if spec is None:
        return placed
    if spec.containers:
        placed += [("containers", i, c) for i, c in enumerate(spec.containers) if c is not None]
    if spec.initContainers:
        placed += [("initContainers", i, c) for i, c in enumerate(spec.initContainers) if c is not None]
    return placed


def first_user_of(container: Container, names: Iterable[str]) -> int | None:
    """The index of the first variable that uses one of `names` as $(NAME): those must come before it.

    Source: https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    """
    for index, variable in enumerate(container.env or ()):
        value = variable and variable.value
        if value and "$(" in value and any(f"$({name})" in value for name in names):
            return index
    return None
