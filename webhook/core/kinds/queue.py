"""A queue that schedules a whole object, as Kueue's does: its label on the object that the user created. Pure."""

from collections.abc import Iterator
from typing import Any

from webhook.core import scheduling
from webhook.core.kinds.kind import Findings, Kind, Targets
from webhook.core.messages import Denied, Warn, quoted
from webhook.core.patch import at
from webhook.core.schema.pod import Metadata
from webhook.core.template import controller_of


def queue_edits(kind: Kind[Any], obj: Any, targets: Targets) -> Findings:
    """The queue that the templates name, which must be one; what another object controls is a part of its workload."""
    wanted = dict(_wanted(targets))
    if not wanted or _is_part(obj.metadata):
        return
    if len(wanted) > 1:
        first, other, *_ = wanted
        raise Denied("one-queue", value=first, other=quoted(other))
    [(queue, key)] = wanted.items()
    if scheduling.queue_chosen(at(obj, kind.queued or ("metadata",)), key):
        return
    if kind.queued is None:
        yield Warn("queue-by-hand", {"kind": kind.kind, "key": key.label or key.annotation})
    else:
        yield scheduling.queue_edit(kind.queued, queue, key)


def _wanted(targets: Targets) -> Iterator[tuple[str, Any]]:
    for target in targets:
        decided = target.resolution.scheduling
        if decided.queue is not None and decided.key is not None and decided.key.where == "workload":
            yield decided.queue, decided.key


def _is_part(metadata: Metadata | None) -> bool:
    """Whether the object is a part of its controller's workload; each Job of a CronJob is a workload by itself."""
    owner = controller_of(metadata)
    return owner is not None and owner.kind != "CronJob"
