"""inject: one object's view in, edits and warnings out. Pure; knows neither HTTP nor admission.

The webhook and `accel inject` share it, so that both give the same result for the same object. One pass over it:

1. each pod template: the annotations around it, and which hardware they mean;
2. what the kind decides for all of them: slices, coordinators;
3. each template again: the rules give edits and warnings;
4. the object's own fields.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, final

from webhook.core import annotations, limits
from webhook.core.annotations import INJECT, INJECTED, NONE, TOPOLOGY, TYPE, TemplateAnnotations, read_annotations
from webhook.core.kinds import owners
from webhook.core.kinds.kind import Context, Findings, Kind, Target, Targets, with_devices
from webhook.core.kinds.pod import NODE_CHOSEN
from webhook.core.kinds.queue import queue_edits
from webhook.core.last_applied import LAST_APPLIED, last_applied
from webhook.core.messages import Denied, Warn
from webhook.core.patch import Edit, Path, Remove, Section, at, within
from webhook.core.resolution import resolve
from webhook.core.rules.detect import detected
from webhook.core.rules.rules import RULES
from webhook.core.schema.pod import Metadata
from webhook.core.template import PodTemplate, annotations_of, controller_of, labels_of

LEFT_ALONE: Final = {
    "mirror-pod": "a mirror Pod belongs to its kubelet",
    "daemonset-pod": "a DaemonSet's Pods are placed by their controller",
    "windows-pod": "no accelerator is injected into Windows Pods",
    "node-chosen": "spec.nodeName is set, so no scheduler sees the Pod",
    "mirrored": "MultiKueue compares it with its original, which is injected in the manager's cluster",
}
"""Reasons for skipping that produce a warning where the user wrote an annotation; other codes are silent."""


@final
@dataclass(frozen=True)
class Injection:
    """The result of injection for one object."""

    sections: tuple[Section, ...] = ()
    warnings: tuple[Warn, ...] = ()
    types: tuple[str, ...] = ()  # canonical types that were resolved, in the object's order
    skipped: str = ""  # reason code, if the object was left alone
    mentions: int = 0  # keys of ours that were read; not counted if a controller made the object
    leftovers: tuple[Remove, ...] = ()  # of a stored object's former type; removed before the edits are made
    base: Any = None  # the object without the leftovers, if there are any: the edits apply to it

    @property
    def edits(self) -> list[Edit]:
        """All edits, with paths that begin at the object."""
        return [edit for section in self.sections for edit in within(section.path, section.edits)]


def tolerated(denied: Denied) -> Injection:
    """An object that passes although it would be denied, since it already exists: unchanged, with a warning."""
    return Injection(warnings=(Warn("update-not-understood", {"why": denied.message.splitlines()[0]}),))


def inject(kind: Kind[Any], obj: Any, context: Context) -> Injection:
    """The edits that give every pod template of `obj` what it asks for; raises `Denied`."""
    try:
        return _injected(kind, obj, context)
    except Denied as denied:
        if kind.judged_before(obj):
            return tolerated(denied)
        raise


def _injected(kind: Kind[Any], obj: Any, context: Context) -> Injection:
    code = "mirrored" if is_mirrored(obj.metadata) else owners.skipped(kind, obj, context.site)
    if context.stored and code == NODE_CHOSEN:  # the scheduler has chosen it meanwhile
        code = None
    if code is not None:
        return Injection(skipped=code, warnings=tuple(_why_skipped(kind, obj, code)))
    read = _read(kind, obj, context)
    read.add_own_metadata(kind, obj)
    targets = _grouped(kind, obj, read.targets, context)
    collected = _Collected(read.warnings())
    for target in (*targets, *read.placed):
        collected.add_template(target)
        if target.resolution.request.multislice:
            collected.warnings.extend(_unused_multislice(kind, obj, target))
    collected.add_object(outside(kind, obj, (*targets, *read.placed), context))
    names = [target.resolution.accelerator.name for target in (*targets, *read.placed)]
    for template in read.without_request:
        brought = detected(template, context.namespace, context.site)
        collected.add_object(brought.found, template.path)
        names += brought.types
    return Injection(
        collected.sections(),
        tuple(collected.warnings),
        types=tuple(dict.fromkeys([name for name in names if name])),
        mentions=read.levels.mentions(obj) if controller_of(obj.metadata) is None else 0,
    )


def is_mirrored(metadata: Metadata | None) -> bool:
    """Whether MultiKueue made the object from one in another cluster: if they come to differ, the work ends unfinished.

    Source: https://github.com/kubernetes-sigs/kueue/issues/13046
    """
    return bool(labels_of(metadata).multikueue_origin)


def targets_of(kind: Kind[Any], obj: Any, context: Context) -> Targets:
    """The pod templates that ask for an accelerator, and what each gets; raises `Denied`."""
    read = _read(kind, obj, context)
    return [*_grouped(kind, obj, read.targets, context), *read.placed]


def _grouped(kind: Kind[Any], obj: Any, read: Targets, context: Context) -> Targets:
    """The targets with what only the whole object knows."""
    targets = kind.resolve_group(obj, read, context)
    if not any(target.resolution.multi_host for target in targets):
        return targets
    keys = kind.slice_keys(obj, targets, context)
    return [Target(t.template, t.resolution.with_slice_keys(keys(t))) for t in targets]


def outside(kind: Kind[Any], obj: Any, targets: Targets, context: Context) -> Findings:
    """Edits and warnings outside the templates: the kind's own, those about a Pod's siblings, and the queue."""
    held = with_devices(targets)
    yield from kind.object_edits(obj, held, context)
    yield from owners.other_hosts(kind, obj, held, context)
    yield from queue_edits(kind, obj, targets)


class _Read:
    """What was read from the annotations around an object's pod templates."""

    def __init__(self, kind: Kind[Any], obj: Any) -> None:
        self.targets: list[Target] = []
        self.placed: list[Target] = []  # on the nodes without devices: not part of a slice
        self.without_request: list[PodTemplate] = []  # may get something because of their resources alone
        self._unknown: list[str] = []
        self._ineffective: dict[str, Warn] = {}
        self.levels = annotations.Levels()
        self._copied = 0
        if not kind.patched:  # its own metadata is not a level of a template
            self._unknown += annotations.unknown(annotations.own(annotations_of(obj.metadata)))

    def add(self, template: PodTemplate, annotated: TemplateAnnotations) -> None:
        """Collects warnings about the annotations themselves, whatever they lead to; each once."""
        if annotated.off is not None:
            if annotated.off < len(annotated.levels) - 1:
                self._ineffective.setdefault(INJECT, Warn("inject-false-not-pods"))
            return
        for level in template.levels:
            self._unknown += self.levels.take_unknown(level)
        if not annotated.typed:
            for key in annotations.without_effect(annotated.levels):
                self._ineffective.setdefault(key, Warn("no-type", {"key": key}))

    def add_target(self, target: Target) -> None:
        """A template that asks. It gets a copy of the object's annotations, and a long list is parsed for each."""
        (self.placed if target.resolution.placed_only else self.targets).append(target)
        self._copied += sum([len(word) for _, word in target.resolution.request.outer])
        if self._copied > limits.ANSWER:
            size = f"more than {limits.ANSWER:,} characters of annotations"
            raise limits.too_large("the injection", size, f"{limits.ANSWER:,}")

    def add_own_metadata(self, kind: Kind[Any], obj: Any) -> None:
        """Our keys in the object's own metadata if it is not a level of any template."""
        if not kind.patched or self.levels.has_read(obj.metadata):
            return
        ours = annotations.own(annotations_of(obj.metadata))
        self._unknown += annotations.unknown(ours)
        for key in annotations.COPIED:
            if key in ours and not self.levels.read_any():
                facts = {"key": key, "place": "metadata.annotations", "why": "there is no pod template"}
                self._ineffective.setdefault(key, Warn("unread-key", facts))

    def add_shadowed(self, warning: Warn | None) -> None:
        """Collects it once per object, for the first template."""
        if warning is not None:
            self._ineffective.setdefault(TYPE, warning)

    def warnings(self) -> list[Warn]:
        """About unknown keys, then about those without effect here."""
        if not self._unknown and not self._ineffective:
            return []
        effective = {key for target in self.targets for key, _ in target.resolution.request.outer}
        ineffective = [warning for key, warning in self._ineffective.items() if key not in effective]
        return [*annotations.unknown_key_warnings(self._unknown), *ineffective]


def _read(kind: Kind[Any], obj: Any, context: Context) -> _Read:
    read = _Read(kind, obj)
    for template in kind.templates(obj):
        annotated = read_annotations(template.levels, template.containers, read.levels)
        if not kind.patched:
            _check_reach(obj, template, annotated)
        read.add(template, annotated)
        target = _target(template, annotated, context)
        if target is not None:
            read.add_target(target)
            if context.created and not context.stored:
                read.add_shadowed(_shadowed(obj, target, annotated, context))
        elif context.site.detect and annotated.off is None and not annotated.typed:
            read.without_request.append(template)
    return read


def _target(template: PodTemplate, annotated: TemplateAnnotations, context: Context) -> Target | None:
    """What a template asks for and gets; None if it asks for nothing, or is to be left alone."""
    if annotated.off is not None or not annotated.typed:
        return None
    try:
        asked = annotations.type_request(annotated)
        if asked is None or asked.type.lower() == NONE:
            return None
        return Target(template, resolve(asked, template, context.namespace, context.site, context.stored))
    except Denied as denied:
        raise denied.within(template.name) from None


def _shadowed(obj: Any, target: Target, annotated: TemplateAnnotations, context: Context) -> Warn | None:
    """The template has the type of an earlier injection, and the user has changed the outer one since.

    The inner one still wins: it may be an override, and certainly is if the user's file has it.
    """
    near, *outer = reversed(annotated.levels)
    if near.get(INJECTED) != target.resolution.accelerator.name or TYPE not in near:
        return None
    for distance, level in enumerate(outer, 1):
        if TYPE not in level:
            continue
        if _same_type(level, near, target, context) or _in_file(obj, target.template.path):
            return None
        place = "metadata" if distance == len(outer) else "the Job template"
        facts = {"where": target.template.name or "the pod template", "near": near[TYPE][:32], "place": place}
        return Warn("type-shadowed", {**facts, "outer": level[TYPE][:32]})
    return None


def _same_type(outer: Mapping[str, str], near: Mapping[str, str], target: Target, context: Context) -> bool:
    try:
        topology = outer.get(TOPOLOGY) or near.get(TOPOLOGY)
        meant = context.site.catalogue.resolve(outer[TYPE].strip(), topology)
    except Denied:
        return False
    return meant.name == target.resolution.accelerator.name


def _in_file(obj: Any, path: Path) -> bool:
    """Whether the file that kubectl applied has a type on the template at `path`."""
    file = last_applied(annotations_of(obj.metadata).get(LAST_APPLIED))
    return at(file, (*path, "metadata", "annotations", TYPE)) is not None


def _check_reach(obj: Any, template: PodTemplate, annotated: TemplateAnnotations) -> None:
    """A key on an object whose metadata is not copied to its Pods would silently have no effect."""
    own = annotations.own(annotations_of(obj.metadata))
    if annotations.switched_off(own):
        return
    below = {key for level in annotated.levels for key in level}
    for key in annotations.COPIED:
        if key in own and key not in below:
            path = ".".join(str(s) for s in (*template.path, "metadata.annotations"))
            raise Denied("annotation-too-high", where=f"metadata.annotations {key}", path=path)


class _Collected:
    """An object's edits, by the part of it that they apply to, and its warnings.

    What cannot fit into a response is not collected: a short annotation can apply to thousands of templates.
    """

    def __init__(self, warnings: list[Warn]) -> None:
        self.warnings = warnings
        self._sections: dict[Path, list[Edit]] = {}
        self._depths: set[int] = set()  # lengths of the templates' paths
        self._left = limits.EDITS  # that may still be added

    def add_template(self, target: Target) -> None:
        """The rules' edits of a template, with paths relative to it."""
        template, resolution = target.template, target.resolution
        edits: list[Edit] = []
        try:
            for rule in RULES:
                for one in rule.apply(template, resolution):
                    if isinstance(one, Warn):
                        self.warnings.append(one)
                    elif len(edits) < self._left:
                        edits.append(one)
                    else:
                        raise _too_many()
        except Denied as denied:
            raise denied.within(template.name) from None
        self._left -= len(edits)
        self._sections[template.path] = edits
        self._depths.add(len(template.path))

    def add_object(self, found: Iterable[Edit | Warn], path: Path = ()) -> None:
        """Edits of anything in the object, at `path`: they are assigned to the template that they are in, if any."""
        for one in found:
            if isinstance(one, Warn):
                self.warnings.append(one)
            else:
                self._put(replace(one, path=path + one.path) if path else one)
                self._left -= 1
                if self._left < 0:
                    raise _too_many()

    def _put(self, edit: Edit) -> None:
        for depth in self._depths:
            edits = self._sections.get(edit.path[:depth])
            if edits is not None:
                edits.append(replace(edit, path=edit.path[depth:]) if depth else edit)
                return
        self._sections.setdefault((), []).append(edit)

    def sections(self) -> tuple[Section, ...]:
        """The parts that have edits."""
        return tuple([Section(path, edits) for path, edits in self._sections.items() if edits])


def _too_many() -> Denied:
    return limits.too_large("the injection", "too many changes", f"{limits.EDITS:,}")


def _why_skipped(kind: Kind[Any], obj: Any, code: str) -> Iterator[Warn]:
    """The warning about an object that asks and is left alone."""
    levels = [level for template in kind.templates(obj) for level in template.levels]
    if code in LEFT_ALONE and any(annotations_of(level).get(TYPE) is not None for level in levels):
        yield Warn("skipped", {"why": LEFT_ALONE[code]})


def _unused_multislice(kind: Kind[Any], obj: Any, target: Target) -> list[Warn]:
    """A controlled Pod has the annotation from its workload, which got the warning."""
    hardware = target.resolution.accelerator
    if not target.template.path and controller_of(obj.metadata) is not None:
        return []
    if hardware.slice is None or not hardware.slice.multislice:
        return [Warn("multislice-unused", {"why": f"{hardware.name} does not support multislice"})]
    return [] if kind.counts_slices else [Warn("multislice-unused", {"why": f"a {kind.kind} does not count slices"})]
