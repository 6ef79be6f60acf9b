"""The scheduler-name override: what the user or the site asks for, and what may be done about it. Pure."""

from collections.abc import Iterable

import msgspec

from webhook.annotations import Ask
from webhook.messages import Denied, Warn
from webhook.pod import Annotations
from webhook.site import Site

VOLCANO = "volcano"
DEFAULT = "default-scheduler"
"""What the API server fills in; it cannot be told from a user's word, so it counts as unset.

Source: https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/apis/core/v1/defaults.go (SetDefaults_PodSpec)
"""
QUEUE = "scheduling.volcano.sh/queue-name"
GROUPS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
"""Read by Volcano from the metadata of a Pod's owner.

Source: https://github.com/volcano-sh/volcano/blob/master/pkg/controllers/podgroup/pg_controller_handler.go
"""
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"


class Scheduling(msgspec.Struct, frozen=True):
    """What to write; None where nothing is to be written."""

    name: str | None = None
    queue: str | None = None
    warnings: tuple[Warn, ...] = ()

    @property
    def volcano(self) -> bool:
        """Whether the Pods will be Volcano's."""
        return self.name == VOLCANO


UNTOUCHED = Scheduling()


def unset(name: str | None) -> bool:
    """Whether a schedulerName says nothing of the user's will."""
    return not name or name == DEFAULT


def wanted(ask: Ask, type_name: str, namespace: str, site: Site) -> tuple[str | None, str | None]:
    """(scheduler, queue) by annotation, else by the first of the site's defaults that fits."""
    allowed = site.config.schedulers.allowed
    if ask.scheduler is not None and ask.scheduler not in allowed:
        raise Denied("scheduler-not-allowed", value=ask.scheduler, valid=", ".join(allowed))
    default = site.scheduler_default(type_name, namespace)
    if default is None:
        return ask.scheduler, ask.queue
    return ask.scheduler or default.scheduler or None, ask.queue or default.queue or None


def decide(ask: Ask, type_name: str, namespace: str, site: Site, *, present: str | None, kueue: bool) -> Scheduling:
    """What becomes of a template whose schedulerName is `present`."""
    scheduler, queue = wanted(ask, type_name, namespace, site)
    if scheduler is None:
        unused = ask.queue is not None and present != VOLCANO
        warnings = (Warn("queue-unused"),) if unused else ()
        return Scheduling(None, queue if present == VOLCANO else None, warnings)
    if kueue and scheduler != DEFAULT:
        return Scheduling(warnings=(Warn("scheduler-kueue", {"wanted": scheduler}),))
    if not unset(present) and present != scheduler:
        return Scheduling(warnings=(Warn("scheduler-kept", {"name": present, "wanted": scheduler}),))
    if scheduler == DEFAULT:
        warnings = (Warn("queue-unused"),) if ask.queue is not None else ()
        return Scheduling(DEFAULT, None, warnings)
    return Scheduling(scheduler, queue)


def queue_chosen(annotations: Annotations) -> bool:
    """Whether the user already chose a Volcano queue or group for these Pods."""
    return any(annotations.get(key) for key in (QUEUE, *GROUPS))


def kueue_managed(labels: Iterable[Annotations]) -> bool:
    """Whether any of the objects that these labels are of waits in a Kueue queue."""
    return any(level.get(KUEUE_QUEUE) for level in labels)
