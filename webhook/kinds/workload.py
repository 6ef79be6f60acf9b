"""What a kind of workload is to us: where it keeps its pod templates, and which rules come with them. Pure.

A kind is one module with a view, and one `Workload` value in `workloads.WORKLOADS`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

from webhook import slices
from webhook.accelerator import Accelerator
from webhook.annotations import COPIED, INJECT
from webhook.messages import LONGEST_VALUE, Denied, Warn
from webhook.metadata import annotations_of, labels_of
from webhook.patch import Edit, Path
from webhook.plain import Plain
from webhook.pod import Metadata
from webhook.resolution import Place, Resolution, Worker
from webhook.site import Site


@final
class Target(Plain):
    """A pod template that asked, and what it gets."""

    FIELDS = ("place", "resolution")

    def __init__(self, place: Place, resolution: Resolution) -> None:
        self.place = place
        self.resolution = resolution


@final
class Setting(Plain):
    """Where and how an object is looked at."""

    FIELDS = ("namespace", "site", "offline", "stored")

    def __init__(self, namespace: str, site: Site, *, offline: bool = False, stored: bool = False) -> None:
        self.namespace = namespace  # the request's: an object's own can be empty
        self.site = site
        self.offline = offline  # no Pod admission follows: everything must be in the manifest
        self.stored = stored  # an update of an object whose values are kept, whatever today's rules would say


Targets = Sequence[Target]
Findings = Iterable[Edit | Warn]


def _no_findings(_obj: Any, _targets: Targets, _setting: Setting) -> Findings:
    return ()


def _unchanged(_obj: Any, targets: Targets, _setting: Setting) -> Targets:
    return targets


def _never(_obj: Any) -> str | None:
    return None


def _no_defaults(_obj: Any) -> Iterable[Edit]:
    return ()


def _as_it_is(obj: Any) -> Any:
    return obj


@final
class Workload(Plain):
    """One kind. `places`, `facts`, `findings` and `skipped` get the object's view.

    * `places`: its pod templates, in order.
    * `skipped`: the reason code why the object is left alone as a whole, or None.
    * `facts`: the targets with what only the whole object knows (slices, worker names); may deny.
    * `findings`: edits and warnings outside the templates.
    * `unfilled`: the object without what injection writes, for kinds whose templates can change.
    * `defaults`: what the kind's own webhook fills in on CREATE alone, where it is missing; on UPDATE of an immutable
      kind the stored values are put back, since a second apply loses them with its lists.
    * `hints`: places outside the templates whose value also says which form of a type is meant.
    """

    FIELDS = (
        *("group", "kind", "plural", "view", "places", "skipped", "facts", "findings"),
        *("versions", "patched", "reapply", "unfilled", "hints", "defaults"),
    )

    def __init__(
        self,
        group: str,
        kind: str,
        plural: str,
        view: type[Any],
        places: Callable[[Any], Iterable[Place]],
        *,
        skipped: Callable[[Any], str | None] = _never,
        facts: Callable[[Any, Targets, Setting], Targets] = _unchanged,
        findings: Callable[[Any, Targets, Setting], Findings] = _no_findings,
        versions: tuple[str, ...] = ("v1",),
        patched: bool = True,
        reapply: str = "",
        unfilled: Callable[[Any], Any] = _as_it_is,
        hints: tuple[Path, ...] = (),
        defaults: Callable[[Any], Iterable[Edit]] = _no_defaults,
    ) -> None:
        self.group = group
        self.kind = kind
        self.plural = plural
        self.view = view
        self.places = places
        self.skipped = skipped
        self.facts = facts
        self.findings = findings
        self.versions = versions
        self.patched = patched  # False: only checked at admission, its Pods are injected
        self.reapply = reapply  # on UPDATE: "immutable" templates keep their stored values, "mutable" follow the type
        self.unfilled = unfilled
        self.hints = hints
        self.defaults = defaults
        self.name = kind.lower()  # for metrics and messages


def apart(metadata: Metadata | None) -> Metadata:
    """An object's metadata as a template sees it that the object's own keys do not reach: whether to leave it alone."""
    said = annotations_of(metadata).get(INJECT)
    return Metadata(annotations=None if said is None else {INJECT: said}, labels=labels_of(metadata))


def check_reach(metadata: Metadata | None, template: Path | None) -> None:
    """Denies a key that no template hears, naming `template`, which would; for objects whose workers are missing."""
    said = annotations_of(metadata)
    for key in COPIED:
        if template is not None and key in said and said.get(INJECT) != "false":
            path = ".".join(str(step)[:LONGEST_VALUE] for step in (*template, "metadata", "annotations"))
            raise Denied("annotation-too-high", where=f"metadata.annotations {key}", path=path)


def unindexed(_obj: Any, targets: Targets, _setting: Setting) -> Targets:
    """`facts` of kinds whose Pods have no index that a field can refer to."""
    nobody = Worker(subdomain=None, indexed=False)
    return [Target(t.place, slices.with_worker(t.place, t.resolution, nobody)) for t in targets]


def whole_slices(pods: Iterable[tuple[Accelerator, int]]) -> Iterator[Warn]:
    """Warns of numbers of Pods that are not whole slices; those of one type make up slices together."""
    numbers: dict[Accelerator, int] = {}
    for hardware, number in pods:
        numbers[hardware] = numbers.get(hardware, 0) + number
    for hardware, number in numbers.items():
        if number % hardware.hosts:
            yield Warn("replicas-not-slices", {"replicas": number, "type": hardware.name, "hosts": hardware.hosts})
