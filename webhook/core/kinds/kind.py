"""What a kind of workload is to us: where it keeps its pod templates, and which rules come with them. Pure.

A kind is one module with a class, which may read more than its templates, and one entry in `registry.WORKLOADS`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, final

from webhook.core import slices
from webhook.core.annotations import COPIED, INJECT
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.messages import LONGEST_VALUE, Denied, Warn, quoted
from webhook.core.patch import Edit, Path
from webhook.core.resolution import Resolution, Worker
from webhook.core.schema.pod import NO_METADATA, Metadata
from webhook.core.site import Site
from webhook.core.template import PodTemplate, annotations_of, controller_of, kind_of, labels_of


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
    created: bool  # a new object, or a file: whatever injection wrote into it, it wrote into a copy of the user's

    def __init__(
        self, namespace: str, site: Site, *, offline: bool = False, stored: bool = False, created: bool = True
    ) -> None:
        self.namespace = namespace
        self.site = site
        self.offline = offline
        self.stored = stored
        self.created = created


LONGEST_HOST_NAME: Final = 63
"""Characters of a label of DNS."""

Targets = Sequence[Target]


def with_devices(targets: Targets) -> Targets:
    """Those that get devices: to their kind the others are no part of a slice."""
    return [target for target in targets if not target.resolution.placed_only]


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
    """On UPDATE: "immutable" templates keep their stored values, "mutable" ones follow the type; "judged" ones are only
    told what is wrong. Else empty."""
    counts_slices: bool = False
    """Whether several slices of it can be one job."""
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

    def skipped(self, _obj: V, _site: Site) -> str | None:
        """The reason code why the object is left alone as a whole, or None."""
        return None

    def judged_before(self, _obj: V) -> bool:
        """Whether what made the object was judged when it came: a denial would only stop it, so it is a warning."""
        return False

    def resolve_group(self, _obj: V, targets: Targets, _context: Context) -> Targets:
        """The targets with what only the whole object knows (slices, worker names); may deny."""
        return targets

    def object_edits(self, _obj: V, _targets: Targets, _context: Context) -> Findings:
        """Edits and warnings outside the templates."""
        return ()

    def slices(self, _obj: V, _target: Target) -> int | None:
        """How many slices, or groups of one, a template makes; None where the kind does not say it."""
        return None

    def stripped(self, obj: V) -> V:
        """The object without what injection writes, for kinds whose templates can change."""
        return obj

    def defaults(self, _obj: V) -> Iterable[Edit]:
        """What the kind's own webhook fills in on CREATE alone, where it is missing.

        On UPDATE of an immutable kind the stored values are put back, since a second apply loses them with its lists.
        """
        return ()


def owned(metadata: Metadata | None, site: Site) -> str | None:
    """The reason code of an object that its controller, which we know, takes care of."""
    owner = controller_of(metadata)
    return "owned" if owner is not None and kind_of(owner) in site.controllers else None


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
    found: list[Target] = []
    for target in targets:
        nobody = Worker(alone=not target.resolution.multi_host)
        found.append(Target(target.template, slices.with_worker(target.template, target.resolution, nobody)))
    return found


def worker_ids(targets: Targets) -> Iterator[Warn]:
    """Warns of hosts of a slice that nobody tells their place: neither a controller, nor we, nor the user."""
    untold: dict[tuple[str, str], None] = {}
    for target in targets:
        resolution = target.resolution
        if resolution.worker is not None and resolution.worker.index:
            yield from divided_ids(target)
        elif resolution.multi_host and (unset := slices.unset(resolution)):
            untold[" and ".join(unset), resolution.accelerator.name] = None
    for variables, name in untold:
        yield Warn("no-worker-ids", {"variables": variables, "type": name})


def host_names(metadata: Metadata | None, *ends: object) -> Iterator[Warn]:
    """Warns of hosts whose names, the object's with `ends` after it, are no label of DNS: nobody could find them.

    A name that is to be generated gets five characters.
    Source: https://github.com/kubernetes/apiserver/blob/v0.37.2/pkg/storage/names/generate.go
    """
    named = metadata or NO_METADATA
    name = named.name or f"{(named.generateName or '')[: LONGEST_HOST_NAME - 5]}{'x' * 5}"
    whole = "-".join([name, *map(str, ends)])
    shown = quoted((named.name or named.generateName or "")[:24])
    if len(whole) > LONGEST_HOST_NAME:
        yield Warn("long-host-name", {"name": shown, "length": len(whole), "most": LONGEST_HOST_NAME})
    if "." in whole:
        yield Warn("dotted-host-name", {"name": shown})


def divided_ids(target: Target) -> Iterator[Warn]:
    """Warns of ids that no field of a template can say: those of the containers that divide hosts of one slice."""
    resolution = target.resolution
    if resolution.worker is None or not resolution.multi_host or len(resolution.device_containers) == 1:
        return
    if resolution.worker.index and slices.WORKER_ID in slices.unset(resolution):
        yield Warn("divided-worker-ids", {"type": resolution.accelerator.name})


def whole_slices(pods: Iterable[tuple[Accelerator, int]]) -> Iterator[Warn]:
    """Warns of numbers of Pods that are not whole slices; those of one type make up slices together."""
    numbers: dict[Accelerator, int] = {}
    for hardware, number in pods:
        numbers[hardware] = numbers.get(hardware, 0) + number
    for hardware, number in numbers.items():
        if number % hardware.hosts:
            yield Warn("replicas-not-slices", {"replicas": number, "type": hardware.name, "hosts": hardware.hosts})
