"""What a kind of workload is to us: where it keeps its pod templates, and which rules come with them. Pure.

A kind is one module with a class, which may read more than its templates, and one entry in `registry.WORKLOADS`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, final

from webhook.core import slices
from webhook.core.annotations import COPIED, INJECT
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.messages import LONGEST_VALUE, Denied, Warn
from webhook.core.patch import Edit, Path
from webhook.core.resolution import Resolution, Worker
from webhook.core.schema.pod import Metadata
from webhook.core.site import Site
from webhook.core.template import PodTemplate, annotations_of, labels_of


@final
@dataclass(init=False)
class Target:
    """A pod template that asked, and what it gets."""

    template: PodTemplate
    resolution: Resolution

    def __init__(self, template: PodTemplate, resolution: Resolution) -> None:
        self.template = template
        self.resolution = resolution

    @property
    def described(self) -> str:
        """Its type, and the topology where it has one."""
        hardware = self.resolution.accelerator
        return f"{hardware.name} {hardware.slice.topology if hardware.slice else ''}".strip()


@final
@dataclass(init=False)
class Context:
    """Where and how an object is looked at."""

    namespace: str  # the request's: an object's own can be empty
    site: Site
    offline: bool  # no Pod admission follows: everything must be in the manifest
    stored: bool  # an update of an object whose values are kept, whatever today's rules would say

    def __init__(self, namespace: str, site: Site, *, offline: bool = False, stored: bool = False) -> None:
        self.namespace = namespace
        self.site = site
        self.offline = offline
        self.stored = stored


Targets = Sequence[Target]
Findings = Iterable[Edit | Warn]


V = TypeVar("V")


class Kind(Generic[V]):
    """One kind of workload, for objects that its view `V` reads. What it does not say, it has from here."""

    group: str
    kind: str
    plural: str
    view: type[V]
    versions: tuple[str, ...] = ("v1",)
    patched: bool = True
    """False: only checked at admission, where its Pods are injected."""
    reapply: str = ""
    """On UPDATE: "immutable" templates keep their stored values, "mutable" ones follow the type. Else empty."""
    hints: tuple[Path, ...] = ()
    """Places outside the templates whose value also says which form of a type is meant."""

    queued: Path | None = ("metadata",)
    """The metadata of what a queue holds as one; None: the object's, which is not ours to write."""

    @property
    def name(self) -> str:
        """The kind, for metrics and messages."""
        return self.kind.lower()

    def templates(self, obj: V) -> Iterable[PodTemplate]:
        """Its pod templates, in order."""
        raise NotImplementedError

    def skipped(self, _obj: V) -> str | None:
        """The reason code why the object is left alone as a whole, or None."""
        return None

    def resolve_group(self, _obj: V, targets: Targets, _context: Context) -> Targets:
        """The targets with what only the whole object knows (slices, worker names); may deny."""
        return targets

    def object_edits(self, _obj: V, _targets: Targets, _context: Context) -> Findings:
        """Edits and warnings outside the templates."""
        return ()

    def stripped(self, obj: V) -> V:
        """The object without what injection writes, for kinds whose templates can change."""
        return obj

    def defaults(self, _obj: V) -> Iterable[Edit]:
        """What the kind's own webhook fills in on CREATE alone, where it is missing.

        On UPDATE of an immutable kind the stored values are put back, since a second apply loses them with its lists.
        """
        return ()


def inject_key_only(metadata: Metadata | None) -> Metadata:
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


def unindexed(targets: Targets) -> Targets:
    """The targets of a kind whose Pods have no index that a field can refer to."""
    nobody = Worker(subdomain=None, indexed=False)
    return [Target(t.template, slices.with_worker(t.template, t.resolution, nobody)) for t in targets]


def whole_slices(pods: Iterable[tuple[Accelerator, int]]) -> Iterator[Warn]:
    """Warns of numbers of Pods that are not whole slices; those of one type make up slices together."""
    numbers: dict[Accelerator, int] = {}
    for hardware, number in pods:
        numbers[hardware] = numbers.get(hardware, 0) + number
    for hardware, number in numbers.items():
        if number % hardware.hosts:
            yield Warn("replicas-not-slices", {"replicas": number, "type": hardware.name, "hosts": hardware.hosts})
