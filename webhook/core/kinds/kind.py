"""The interface of a kind of workload: where its pod templates are, and what depends on the whole object. Pure.

A kind is one module with a class, which may read more than its templates, and one entry in `registry.WORKLOADS`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from webhook.core.slice_keys import SliceKeys
from webhook.core.template import PodTemplate, annotations_of, labels_of


@final
@dataclass(init=False)
class Target:
    """A pod template that asks for an accelerator, and what it gets."""

    template: PodTemplate
    resolution: Resolution

    def __init__(self, template: PodTemplate, resolution: Resolution) -> None:
        self.template = template
        self.resolution = resolution

    @property
    def described(self) -> str:
        """Its type, and its topology, if any."""
        hardware = self.resolution.accelerator
        return f"{hardware.name} {hardware.slice.topology if hardware.slice else ''}".strip()


@final
@dataclass(init=False)
class Context:
    """The context in which an object is processed."""

    namespace: str  # the request's: an object's own can be empty
    site: Site
    offline: bool  # no Pod admission follows: everything must be in the manifest
    stored: bool  # an update of an object whose values are kept, whatever the current rules say
    created: bool  # a new object, or a file: any injected values in it are the user's copies

    def __init__(
        self, namespace: str, site: Site, *, offline: bool = False, stored: bool = False, created: bool = True
    ) -> None:
        self.namespace = namespace
        self.site = site
        self.offline = offline
        self.stored = stored
        self.created = created


LONGEST_HOST_NAME: Final = 63
"""Characters of a DNS label."""

Targets = Sequence[Target]


def with_devices(targets: Targets) -> Targets:
    """Those that get devices: the others are not part of a slice."""
    return [target for target in targets if not target.resolution.placed_only]


Findings = Iterable[Edit | Warn]


V = TypeVar("V")


class Kind(Generic[V]):
    """One kind of workload, for objects decoded as its view `V`, with defaults for everything optional."""

    group: str
    kind: str
    plural: str
    view: type[V]
    pods: str
    """The Pods that its controller creates itself: "distinct" ones, or "alike" ones, which do not know their place (a
    Job's, unless it is Indexed). Empty if it creates other objects, which create the Pods."""
    decides_children: bool
    """Whether the Jobs, StatefulSets and the like that its controller creates are left alone: they have what was
    injected here, or need no devices."""

    child: bool = False
    """Whether a controller that decides its children can create it."""
    versions: tuple[str, ...] = ("v1",)
    patched: bool = True
    """False: only validated at admission; its Pods are injected instead."""
    reapply: str = ""
    """On UPDATE: "immutable" templates keep their stored values, "mutable" ones follow the type, "restored" ones too if
    the stored object was injected; "judged" ones only produce denials and warnings. Else empty."""
    held_by_kueue: bool = False
    """Whether Kueue refuses every change of the templates of a stored object in a queue."""
    counts_slices: bool = False
    """Whether several of its slices can form one job."""
    queued: Path | None = ("metadata",)
    """The metadata of what a queue holds as one; None: the object's, which is not ours to write."""

    @property
    def full_name(self) -> str:
        """The kind with its API group, as in `kind_of`."""
        return f"{self.kind}.{self.group}"

    @property
    def name(self) -> str:
        """The kind, for metrics and messages."""
        return self.kind.lower()

    def templates(self, obj: V) -> Iterable[PodTemplate]:
        """Its pod templates, in order."""
        raise NotImplementedError

    def skipped(self, _obj: V) -> str | None:
        """The reason code why the whole object is left alone whoever controls it, or None."""
        return None

    def judged_before(self, _obj: V) -> bool:
        """Whether the object's owner was validated when it was created: then a denial becomes a warning."""
        return False

    def resolve_group(self, _obj: V, targets: Targets, _context: Context) -> Targets:
        """The targets with what only the whole object knows (slices, worker names); may deny."""
        return targets

    def slice_keys(self, _obj: V, _targets: Targets, _context: Context) -> Callable[[Target], SliceKeys | None]:
        """The labels that tell the slices of each multi-host target apart; None if no label does."""
        return lambda _target: None

    def object_edits(self, _obj: V, _targets: Targets, _context: Context) -> Findings:
        """Edits and warnings outside the templates."""
        return ()

    def slices(self, _obj: V, _target: Target) -> int | None:
        """How many slices, or groups of one, a template makes; None if the kind does not define it."""
        return None

    def rolls(self, _obj: V) -> bool:
        """Whether its controller replaces the Pods when a template changes."""
        return True

    def hints(self, _obj: V) -> Iterable[Path]:
        """Paths outside the templates whose value also indicates which form of a type is meant."""
        return ()

    def stripped(self, obj: V) -> V:
        """The object without what injection writes, for kinds whose templates can change."""
        return obj

    def defaults(self, _obj: V) -> Iterable[Edit]:
        """What the kind's own webhook fills in only on CREATE, if it is missing.

        On UPDATE of an immutable kind the stored values are restored, since a second apply replaces whole lists.
        """
        return ()


def inject_key_only(metadata: Metadata | None) -> Metadata:
    """An object's metadata for a template that its keys do not apply to, except for `accel.io/inject`."""
    inject = annotations_of(metadata).get(INJECT)
    return Metadata(annotations=None if inject is None else {INJECT: inject}, labels=labels_of(metadata))


def check_reach(metadata: Metadata | None, template: Path | None) -> None:
    """Denies a key that applies to no template, and suggests `template`; for objects without workers."""
    own = annotations_of(metadata)
    for key in COPIED:
        if template is not None and key in own and own.get(INJECT) != "false":
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
    """Warns about hosts of a slice whose worker id is set neither by a controller, nor by us or the user."""
    missing: dict[tuple[str, str], None] = {}
    for target in targets:
        resolution = target.resolution
        if resolution.worker is not None and resolution.worker.index:
            yield from divided_ids(target)
        elif resolution.multi_host and (unset := slices.unset(resolution)):
            missing[" and ".join(unset), resolution.accelerator.name] = None
    for variables, name in missing:
        yield Warn("no-worker-ids", {"variables": variables, "type": name})


def host_names(metadata: Metadata | None, *ends: object) -> Iterator[Warn]:
    """Warns about hosts whose names, the object's plus `ends`, are not DNS labels: they could not be resolved.

    A generated name gets five characters.
    Source: https://github.com/kubernetes/apiserver/blob/v0.37.2/pkg/storage/names/generate.go
    """
    named = metadata or NO_METADATA
    name = named.name or f"{(named.generateName or '')[: LONGEST_HOST_NAME - 5]}{'x' * 5}"
    whole = "-".join([name, *map(str, ends)])
    shown = quoted((named.name or named.generateName or "")[:24])
    if len(whole) > LONGEST_HOST_NAME:
        yield Warn("long-host-name", {"name": shown, "length": len(whole), "limit": LONGEST_HOST_NAME})
    if "." in whole:
        yield Warn("dotted-host-name", {"name": shown})


def divided_ids(target: Target) -> Iterator[Warn]:
    """Warns about ids that no field of a template can set: those of containers that divide the hosts of one slice."""
    resolution = target.resolution
    if resolution.worker is None or not resolution.multi_host or len(resolution.device_containers) == 1:
        return
    if resolution.worker.index and slices.WORKER_ID in slices.unset(resolution):
        yield Warn("divided-worker-ids", {"type": resolution.accelerator.name})


def one_slice_of(pods: Iterable[tuple[Accelerator, int]]) -> Accelerator | None:
    """The multi-host type of which these Pods are exactly one slice, if there is no other one."""
    numbers: dict[Accelerator, int] = {}
    for hardware, number in pods:
        if hardware.hosts > 1:
            numbers[hardware] = numbers.get(hardware, 0) + number
    if len(numbers) != 1:
        return None
    ((hardware, number),) = numbers.items()
    return hardware if number == hardware.hosts else None


def whole_slices(pods: Iterable[tuple[Accelerator, int]]) -> Iterator[Warn]:
    """Warns about numbers of Pods that are not whole slices; those of one type form slices together."""
    numbers: dict[Accelerator, int] = {}
    for hardware, number in pods:
        numbers[hardware] = numbers.get(hardware, 0) + number
    for hardware, number in numbers.items():
        if number % hardware.hosts:
            yield Warn("replicas-not-slices", {"replicas": number, "type": hardware.name, "hosts": hardware.hosts})
