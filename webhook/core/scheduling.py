"""The scheduler-name override: what the user or the site asks for, and what may be done about it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from webhook.core.annotations import TypeRequest
from webhook.core.messages import Denied, Warn
from webhook.core.schema.pod import Annotations, Labels
from webhook.core.site import Site

VOLCANO: Final = "volcano"
DEFAULT: Final = "default-scheduler"
"""What the API server fills in; it cannot be told from a user's word, so it counts as unset.

Source: https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/apis/core/v1/defaults.go (SetDefaults_PodSpec)
"""
QUEUE: Final = "scheduling.volcano.sh/queue-name"
GROUPS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
"""Read by Volcano from the metadata of a Pod's owner.

Source: https://github.com/volcano-sh/volcano/blob/master/pkg/controllers/podgroup/pg_controller_handler.go
"""


@final
@dataclass(frozen=True)
class Scheduling:
    """Whose Pods they will be: schedulerName, where it is not the default, and the queue to write."""

    name: str | None = None
    queue: str | None = None
    warnings: tuple[Warn, ...] = ()

    @property
    def volcano(self) -> bool:
        """Whether the Pods will be Volcano's."""
        return self.name == VOLCANO


UNTOUCHED: Final = Scheduling()


def unset(name: str | None) -> bool:
    """Whether a schedulerName says nothing of the user's will."""
    return not name or name == DEFAULT


def wanted(
    request: TypeRequest, type_name: str, namespace: str, site: Site, *, stored: bool = False
) -> tuple[str | None, str | None]:
    """(scheduler, queue) by annotation, else by the first of the site's defaults that fits.

    `stored`: the object has its scheduler, which was allowed when it came.
    """
    allowed = site.config.schedulers.allowed
    if request.scheduler is not None and request.scheduler not in allowed and not stored:
        raise Denied("scheduler-not-allowed", value=request.scheduler, valid=", ".join(allowed))
    default = site.scheduler_default(type_name, namespace)
    if default is None:
        return request.scheduler, request.queue
    scheduler = request.scheduler or default.scheduler
    meant = default.scheduler in (None, scheduler)  # the default's queue is one of the default's scheduler
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
    """What becomes of a template whose schedulerName is `present`.

    A site's default gives way to the user's own words in silence; an annotation that has no effect is told of.
    """
    scheduler, queue = wanted(request, type_name, namespace, site, stored=stored)
    kept = None if unset(present) else present
    refused = _refused(scheduler, kept, kueue)
    name = kept if refused or kept else scheduler
    told = bool(refused) and request.scheduler is not None
    warnings = [Warn(refused, {"name": kept, "wanted": scheduler})] if told else []
    if unset(name) or name not in (VOLCANO, scheduler):
        if request.queue is not None and not told:
            warnings.append(Warn("queue-unused"))
        queue = None
    return Scheduling(None if unset(name) else name, queue, tuple(warnings))


def _refused(scheduler: str | None, kept: str | None, kueue: bool) -> str:
    """The code of the warning why a scheduler is not set; empty where it may be.

    Kueue holds Pods back until it admits them, and a gang waits for Pods: each would wait for the other.
    """
    if scheduler is None or scheduler == kept:
        return ""
    if kept is not None:
        return "scheduler-kept"
    return "scheduler-kueue" if kueue and scheduler != DEFAULT else ""


def queue_chosen(annotations: Annotations) -> bool:
    """Whether the user already chose a Volcano queue or group for these Pods."""
    return any(annotations.get(key) for key in (QUEUE, *GROUPS))


def kueue_managed(labels: Iterable[Labels]) -> bool:
    """Whether any of the objects that these labels are of waits in a Kueue queue."""
    return any(level.kueue_queue for level in labels)
