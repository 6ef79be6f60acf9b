"""inject: one object's view in, edits and warnings out. Pure; knows neither HTTP nor admission.

The webhook and `accel inject` share it, so that both say the same of the same object.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from webhook import annotations, limits
from webhook.annotations import INJECT, INJECTED, NONE, TYPE
from webhook.detect import detected
from webhook.kinds.workload import Setting, Target, Workload
from webhook.messages import Denied, Warn
from webhook.metadata import annotations_of, controller_of
from webhook.mutators import mutate
from webhook.patch import Edit, Path, Remove, Section, as_was, stored, within
from webhook.plain import same
from webhook.resolution import Place, resolve
from webhook.value import Value

LEFT_ALONE: Final = {
    "mirror-pod": "a mirror Pod is its kubelet's",
    "daemonset-pod": "a DaemonSet's Pods are placed by their controller",
    "windows-pod": "no accelerator is injected into Windows Pods",
    "node-chosen": "spec.nodeName is set, so no scheduler will see it",
}
"""Skips that a user who wrote an annotation should hear of; other codes are silent."""


class Injection(Value, frozen=True):
    """What injection makes of one object."""

    sections: tuple[Section, ...] = ()
    warnings: tuple[Warn, ...] = ()
    types: tuple[str, ...] = ()  # canonical types that were resolved, in the object's order
    skipped: str = ""  # reason code, where the object was left alone
    leftovers: tuple[Remove, ...] = ()  # of a stored object's former type; they go before the edits are made
    base: Any = None  # the object without the leftovers, where there are any: the edits are of it

    @property
    def edits(self) -> list[Edit]:
        """All edits, with paths that begin at the object."""
        return [edit for section in self.sections for edit in within(section.path, section.edits)]


def inject(workload: Workload, obj: Any, setting: Setting) -> Injection:
    """The edits that give every pod template of `obj` what it asks for; raises `Denied`."""
    code = workload.skipped(obj)
    if code is not None:
        return Injection(skipped=code, warnings=tuple(_why_skipped(workload, obj, setting, code)))
    said = _heard(workload.places(obj))
    _check_reach(workload, obj, said)
    targets = _targets(workload, obj, said, setting)
    collected = _Collected(_notices(workload, obj, said))
    sections = _sections(said, targets, collected)
    depths = {len(path) for path in sections}
    _placed(sections, depths, collected.edits(workload.findings(obj, targets, setting)))
    names = [target.resolution.accelerator.name for target in targets]
    for one in _unasked(said, setting):
        brought = detected(one.place, setting.namespace, setting.site)
        _placed(sections, depths, within(one.place.path, collected.edits(brought.found)))
        names += brought.types
    return Injection(
        sections=tuple([Section(path, edits) for path, edits in sections.items() if edits]),
        warnings=tuple(collected.warnings),
        types=tuple(dict.fromkeys([name for name in names if name])),
    )


def _sections(said: Sequence["_Said"], targets: Sequence[Target], collected: "_Collected") -> dict[Path, list[Edit]]:
    """Each template's edits; a template like the one before it, with the same resolution, has the very same list."""
    again = {one.place.path for one in said if one.again}
    sections: dict[Path, list[Edit]] = {}
    before: Target | None = None
    for target in targets:
        path = target.place.path
        if before is not None and path in again and same(target.resolution, before.resolution):
            sections[path] = sections[before.place.path]
        else:
            sections[path] = collected.edits(_mutated(target))
        before = target
    return sections


class _Collected:
    """Warnings of one object, and how many edits it has so far: what cannot fit into an answer is not collected."""

    def __init__(self, warnings: list[Warn]) -> None:
        self.warnings = warnings
        self._number = 0

    def edits(self, found: Iterable[Edit | Warn]) -> list[Edit]:
        """The edits; the warnings among them are added to the others."""
        edits: list[Edit] = []
        for one in found:
            if isinstance(one, Warn):
                self.warnings.append(one)
            else:
                edits.append(one)
                self._number += 1
                if self._number > limits.EDITS:
                    raise limits.too_large("what is to be injected", "too many changes", f"{limits.EDITS:,}")
        return edits


def _placed(sections: dict[Path, list[Edit]], depths: set[int], edits: Iterable[Edit]) -> None:
    """Edits that name their places from the object go to the template that they reach into, else to the object's.

    `depths` are the lengths of the templates' paths.
    """
    for edit in edits:
        for depth in depths:
            template = edit.path[:depth]
            if template in sections:
                moved = edit.but(path=edit.path[depth:]) if depth else edit
                sections[template] = [*sections[template], moved]  # a copy: another may have the same list
                break
        else:
            sections.setdefault((), []).append(edit)


class _Said:
    """What the levels around one pod template and its containers say to us."""

    def __init__(
        self,
        place: Place,
        levels: list[dict[str, str]],
        held: list[tuple[str, str, object]],
        off: int | None,
        *,
        again: bool = False,
    ) -> None:
        self.place = place
        self.levels = levels
        self.held = held  # placeholders
        self.off = off  # the level whose `accel.io/inject: "false"` is the nearest word on the matter
        self.again = again  # the template and its levels are like those before it, and so is what follows
        self.typed = bool(held) or any(TYPE in level for level in levels)


def _said(place: Place) -> _Said:
    levels = [annotations.own(annotations_of(level)) for level in place.levels]
    held = annotations.placeholders(place.containers)
    return _Said(place, levels, held, _off(levels))


def _heard(places: Iterable[Place]) -> list[_Said]:
    """What is said of each template. Most objects with many templates have the same one many times."""
    found: list[_Said] = []
    for place in places:
        before = found[-1] if found else None
        if before is not None and _alike(before.place, place):
            found.append(_Said(place, before.levels, before.held, before.off, again=True))
        else:
            found.append(_said(place))
    return found


_LIKENESS: Final = [name for name in Place.FIELDS if name not in ("path", "name")]


def _alike(one: Place, other: Place) -> bool:
    """Whether two templates differ in nothing but their place in the object."""
    return all(same(getattr(one, name), getattr(other, name)) for name in _LIKENESS)


def switched_off(place: Place) -> bool:
    """Whether the template is to be left alone."""
    return _said(place).off is not None


def targets_of(workload: Workload, obj: Any, setting: Setting) -> list[Target]:
    """The pod templates that asked, and what each gets; raises `Denied`."""
    return _targets(workload, obj, _heard(workload.places(obj)), setting)


def _targets(workload: Workload, obj: Any, said: Sequence[_Said], setting: Setting) -> list[Target]:
    targets: list[Target] = []
    target: Target | None = None
    for one in said:
        if not one.again:
            target = _target(one, setting)
        if target is not None:
            targets.append(Target(one.place, target.resolution))
    return list(workload.facts(obj, targets, setting))


def _unasked(said: Sequence[_Said], setting: Setting) -> list[_Said]:
    """What may get something for its resources alone: no type of ours, not even `none`, at any level."""
    return [one for one in said if one.off is None and not one.typed] if setting.site.detect else []


def _why_skipped(workload: Workload, obj: Any, setting: Setting, code: str) -> Iterator[Warn]:
    """What the user should hear of an object that asked and is left alone."""
    levels = [level for place in workload.places(obj) for level in place.levels]
    if code in LEFT_ALONE and any(annotations_of(level).get(TYPE) is not None for level in levels):
        yield Warn("skipped", {"why": LEFT_ALONE[code]})
    if code != "foreign-owner":
        return
    owner, said = controller_of(obj.metadata), map(_said, workload.places(obj))
    for hardware in (t.resolution.accelerator for one in said if (t := _target(one, setting)) is not None):
        if owner is not None and hardware.hosts > 1:
            facts = {"kind": owner.kind[:32], "type": hardware.name, "hosts": hardware.hosts}
            yield Warn("foreign-job", facts)


def _target(said: _Said, setting: Setting) -> Target | None:
    """What a template asked for and gets; None where it asked for nothing, or wants to be left alone."""
    if said.off is not None:
        return None
    place = said.place
    try:
        asked = annotations.ask(said.levels, said.held)
        if asked is None or asked.type.lower() == NONE:
            return None
        return Target(place, resolve(asked, place, setting.namespace, setting.site, setting.stored))
    except Denied as denied:
        raise denied.within(place.name) from None


def _mutated(target: Target) -> Iterator[Edit | Warn]:
    try:
        yield from mutate(target.place, target.resolution)
    except Denied as denied:
        raise denied.within(target.place.name) from None


def _off(levels: Sequence[dict[str, str]]) -> int | None:
    for index in range(len(levels) - 1, -1, -1):
        if INJECT in levels[index]:
            return index if annotations.switched_off(levels[index]) else None
    return None


def _check_reach(workload: Workload, obj: Any, said: Sequence[_Said]) -> None:
    """A key on an object whose metadata its Pods never see would do nothing, silently."""
    if workload.patched:
        return
    own = annotations.own(annotations_of(obj.metadata))
    if annotations.switched_off(own):
        return
    for one in said:
        below = {key for level in one.levels for key in level}
        for key in annotations.COPIED:
            if key in own and key not in below:
                path = ".".join(str(s) for s in (*one.place.path, "metadata.annotations"))
                raise Denied("annotation-too-high", where=f"metadata.annotations {key}", path=path)


def _notices(workload: Workload, obj: Any, said: Sequence[_Said]) -> list[Warn]:
    """What is worth saying of the annotations themselves, whatever they lead to; each thing once."""
    strange: list[str] = []
    vain: dict[str, Warn] = {}
    heard: set[int] = set()  # most templates have the object's own metadata for a level: it is looked through once
    if not workload.patched:  # its own metadata is no level of a template
        strange += annotations.unknown(annotations_of(obj.metadata))
    for one in said:
        if one.again:
            continue
        if one.off is not None:
            if one.off < len(one.levels) - 1:
                vain.setdefault(INJECT, Warn("inject-false-not-pods"))
            continue
        fresh = [level for level in one.place.levels if id(level) not in heard]
        heard.update(map(id, fresh))
        for level in fresh:
            strange += annotations.unknown(annotations_of(level))
        if not one.typed:
            vain.update((key, Warn("no-type", {"key": key})) for key in annotations.without_effect(one.levels))
    return [*annotations.strange(strange), *vain.values()] if strange or vain else []


def reinject(workload: Workload, obj: Any, old: Any, setting: Setting) -> Injection:
    """The same on UPDATE of a kind with immutable templates: with the stored values, and never denied.

    `old` is the stored object as plain JSON values.
    """
    try:
        fresh = inject(workload, obj, setting.but(stored=True))
    except Denied as denied:
        return refused(denied)
    if not fresh.types:
        return fresh
    edits = as_was((*fresh.edits, *workload.defaults(obj)), old)
    warning = _lost(fresh.edits, old)
    return Injection((Section((), edits),), (*fresh.warnings, *warning), fresh.types)


def refused(denied: Denied) -> Injection:
    """An update that cannot be understood, of an object that is stored anyway: left as it is, and told of."""
    return Injection(warnings=(Warn("update-not-understood", {"why": denied.message.splitlines()[0]}),))


def _lost(fresh: Sequence[Edit], old: Any) -> tuple[Warn, ...]:
    """What the new object would have got and the stored one cannot get any more: said once."""
    differing = [e for e in fresh if not isinstance(e, Remove) and stored(e, old) != e.value]
    if any(e.path[-1] == INJECTED and stored(e, old) is None for e in differing):
        return (Warn("never-injected"),)
    return (Warn("old-kept", {"what": differing[0].path[-1]}),) if differing else ()
