"""What the controller of an object means for it: it was decided with the controller, or its siblings were not. Pure.

Everything here follows from what each kind in the registry says of its controller.
"""

from collections.abc import Iterator
from typing import Any, Final

from webhook.core.kinds.kind import Context, Kind, Targets
from webhook.core.kinds.pod import POD
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.messages import Denied, Warn
from webhook.core.site import Site
from webhook.core.slices import COMPLETION_INDEX
from webhook.core.template import annotations_of, controller_of, kind_of

DECIDED: Final = frozenset([w.full_name for w in WORKLOADS.values() if w.decides_children])
"""Controllers whose Jobs, StatefulSets and the like are left alone."""

CREATORS: Final = frozenset([w.full_name for w in WORKLOADS.values() if w.pods])
"""Controllers that create the other hosts of a Pod's slice too."""

ALIKE: Final = frozenset([w.full_name for w in WORKLOADS.values() if w.pods == "alike"])
"""Controllers of whose Pods none knows which host of a slice it is. Such workloads are refused on creation; these are
older than our installation, or were changed while it was down."""


def skipped(kind: Kind[Any], obj: Any, site: Site) -> str | None:
    """The reason code why the whole object is left alone, or None."""
    if kind.child and _was_decided(obj, site):
        return "owned"
    return kind.skipped(obj)


def _was_decided(obj: Any, site: Site) -> bool:
    owner = controller_of(obj.metadata)
    return owner is not None and (kind_of(owner) in DECIDED or kind_of(owner) in site.config.controllers)


def other_hosts(kind: Kind[Any], obj: Any, targets: Targets, context: Context) -> Iterator[Warn]:
    """A Pod of a multi-host type is one host: its creator must create the others, and distinguish them."""
    if kind is not POD:
        return
    owner = controller_of(obj.metadata)
    for target in targets:
        hardware = target.resolution.accelerator
        if hardware.hosts == 1:
            continue
        if owner is None or not _creates_hosts(kind_of(owner), context.site):
            yield Warn("one-of-hosts", {"type": hardware.name, "hosts": hardware.hosts})
        elif kind_of(owner) in ALIKE and COMPLETION_INDEX not in annotations_of(obj.metadata):
            where = target.resolution.request.where
            raise Denied(
                "no-stable-index", where=where, value=hardware.name, hosts=hardware.hosts, kind=_alike(owner.kind)
            )


def _creates_hosts(owner: str, site: Site) -> bool:
    return owner in CREATORS or owner in DECIDED or owner in site.config.controllers


def _alike(kind: str) -> str:
    return "NonIndexed Job" if kind == "Job" else kind
