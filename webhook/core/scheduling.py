"""The scheduler override: what the user or the site requests, and whether it applies. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from webhook.core import syntax
from webhook.core.annotations import QUEUE as WORD
from webhook.core.annotations import TypeRequest
from webhook.core.messages import LONGEST_VALUE, Denied, Warn
from webhook.core.patch import Path, Put
from webhook.core.schema.pod import Labels, Metadata
from webhook.core.schema.site import QueueKey
from webhook.core.site import Site
from webhook.core.template import annotations_of, labels_of

VOLCANO: Final = "volcano"
DEFAULT: Final = "default-scheduler"
"""What the API server fills in; it cannot be distinguished from a user's own value, so it counts as unset.

Source: https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/apis/core/v1/defaults.go (SetDefaults_PodSpec)
"""
QUEUE: Final = "scheduling.volcano.sh/queue-name"
GROUPS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
"""Read by Volcano from the metadata of a Pod's owner.

Source: https://github.com/volcano-sh/volcano/blob/master/pkg/controllers/podgroup/pg_controller_handler.go
"""


OTHER_SPELLINGS: Final = {"yunikorn.apache.org/queue": ("queue",)}
"""Labels that a scheduler reads beside its own: with two of them that differ, YuniKorn refuses the Pod.

Source: https://issues.apache.org/jira/browse/YUNIKORN-2504
"""


@final
@dataclass(frozen=True)
class Scheduling:
    """What is decided: schedulerName, unless it is the default; the queue to write, and its key."""

    name: str | None = None
    queue: str | None = None
    key: QueueKey | None = None
    warnings: tuple[Warn, ...] = ()
    written: bool = True
    """False: the name is the user's own, and nobody asks us for another."""

    @property
    def volcano(self) -> bool:
        """Whether Volcano schedules the Pods."""
        return self.name == VOLCANO


UNTOUCHED: Final = Scheduling()


def unset(name: str | None) -> bool:
    """Whether a schedulerName counts as unset."""
    return not name or name == DEFAULT


def wanted(
    request: TypeRequest, type_name: str, namespace: str, site: Site, *, stored: bool = False
) -> tuple[str | None, str | None]:
    """(scheduler, queue) by annotation, else by the first of the site's defaults that matches.

    `stored`: the object has its scheduler, which was allowed when it was created.
    """
    allowed = site.config.schedulers.allowed
    if request.scheduler is not None and request.scheduler not in allowed and not stored:
        raise Denied("scheduler-not-allowed", value=request.scheduler, valid=", ".join(allowed))
    default = site.scheduler_default(type_name, namespace)
    if default is None:
        return request.scheduler, request.queue
    scheduler = request.scheduler or default.scheduler
    meant = default.scheduler in (None, scheduler)  # the default's queue belongs to the default's scheduler
    return scheduler, request.queue or (default.queue if meant else None)


def decide(
    request: TypeRequest,
    type_name: str,
    namespace: str,
    site: Site,
    *,
    present: str | None,
    kueue: bool,
    stored: bool = False,
) -> Scheduling:
    """The scheduling of a template whose schedulerName is `present`.

    A site's default silently yields to the user's own values; an annotation without effect produces a warning.
    """
    scheduler, queue = wanted(request, type_name, namespace, site, stored=stored)
    kept = None if unset(present) else present
    refused = _refused(scheduler, kept, kueue)
    name = kept if refused or kept else scheduler
    warned = bool(refused) and request.scheduler is not None
    warnings = [Warn(refused, {"name": kept, "wanted": scheduler})] if warned else []
    key = site.queues.get(name or DEFAULT)
    if refused:  # the queue was meant for the refused scheduler; the one that is kept has no such queue
        queue = None if warned else request.queue
    if key is None or queue is None:
        if request.queue is not None and not warned:
            warnings.append(Warn("queue-unused", {"name": (name or DEFAULT)[:LONGEST_VALUE]}))
        queue, key = None, None
    if key is not None and key.label and not syntax.is_value(queue or "") and not stored:
        raise Denied("bad-value", where=WORD, value=queue, valid=f"a label's value, for {key.label}")
    written = scheduler is not None and not refused
    return Scheduling(None if unset(name) else name, queue, key, tuple(warnings), written)


def _refused(scheduler: str | None, kept: str | None, kueue: bool) -> str:
    """The code of the warning that says why a scheduler is not set; empty if it may be set.

    Kueue holds Pods back until it admits them, and a gang waits for Pods: each would wait for the other.
    """
    if scheduler is None or scheduler == kept:
        return ""
    if kept is not None:
        return "scheduler-kept"
    return "scheduler-kueue" if kueue and scheduler != DEFAULT else ""


def queue_chosen(metadata: Metadata | None, key: QueueKey) -> bool:
    """Whether the user already chose a queue, or a Volcano group, where `key` would be written."""
    labels, annotations = labels_of(metadata), annotations_of(metadata)
    if key.label:
        spelled = (key.label, *OTHER_SPELLINGS.get(key.label, ()))
        return any(labels.get(label) for label in spelled) or bool(annotations.get(key.label))
    groups = GROUPS if key.annotation == QUEUE else ()
    return any(annotations.get(name) for name in (key.annotation, *groups))


def queue_edit(path: Path, queue: str, key: QueueKey) -> Put:
    """The queue in the metadata at `path`."""
    return Put((*path, "labels", key.label) if key.label else (*path, "annotations", key.annotation), queue)


def kueue_managed(labels: Iterable[Labels]) -> bool:
    """Whether any object with these labels is managed by a Kueue queue."""
    return any(level.kueue_queue for level in labels)
