"""What an UPDATE becomes, given the stored object; the kind's `reapply` says which of four ways. Pure.

    "immutable"  keep_stored  injected again, with the values that are stored; never denied
    "mutable"    follow_type  injected again; what the stored object's type left in it is removed first
    "restored"   restore      the same if the stored object was injected, else judged
    "judged"     judge        nothing is injected: denials and warnings only

Most of this module is the second. The API server merges: an apply keeps every field that the file does not name, so
after a change of type the old type's node selectors, tolerations and copied keys are still there, and look like the
user's. A value that equals one that the stored object's type injects is ours, unless the user's file has it: the API
server records which fields an apply has, and kubectl keeps the file.
Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from webhook.core import annotations, scheduling
from webhook.core.annotations import CONTAINER, COPIED, INJECT, INJECTED, MODE, PREFIX, QUEUE, TYPE
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.inject import Injection, inject, outside, targets_of, tolerated
from webhook.core.kinds.kind import Context, Kind, Target
from webhook.core.last_applied import LAST_APPLIED, last_applied
from webhook.core.messages import Denied, Warn
from webhook.core.patch import (
    Amend,
    Append,
    Edit,
    Path,
    Put,
    Remove,
    Section,
    as_was,
    at,
    child,
    stored,
    within,
    without,
)
from webhook.core.resolution import Resolution, stripped
from webhook.core.rules.node_pool import CHOICES, is_placement, restored, without_placement
from webhook.core.rules.rules import apply_rules
from webhook.core.template import PodTemplate, annotations_of, labels_of

AMOUNTS: Final = ("limits", "requests", "f:limits", "f:requests")
KINDS: Final = (TYPE, *annotations.VOIDED, MODE)
"""The keys that say which hardware, how many and how."""


def keep_stored(kind: Kind[Any], obj: Any, new: Any, old: Any, context: Context) -> Injection:
    """Injection into an object whose templates cannot change: each edit with the value that is stored. Never denied.

    `obj` is the view of `new`, which is plain JSON like the stored `old`.
    """
    try:
        fresh = inject(kind, obj, replace(context, stored=True))
    except Denied as denied:
        return tolerated(denied)
    try:
        before = view(kind, old)
    except msgspec.ValidationError:  # its templates are not known, only the values at our places
        if not fresh.types:
            return fresh
        edits = as_was((*fresh.edits, *kind.defaults(obj)), old)
        return Injection((Section((), edits),), (*fresh.warnings, *_lost(fresh.edits, old)), fresh.types)
    if not fresh.types and (fresh.skipped or not _was_injected(kind, before)):
        return fresh
    edits = as_was((*fresh.edits, *_of_another_type(kind, obj, new, before, fresh, context), *kind.defaults(obj)), old)
    edits += _restored(kind, obj, before)
    warning = _lost(fresh.edits, old) or _unheard(kind, obj, before)
    if not fresh.types:  # the file has no type any more
        warning = (Warn("old-kept", {"what": TYPE}),)
    return Injection((Section((), edits),), (*fresh.warnings, *warning), fresh.types)


def _was_injected(kind: Kind[Any], before: Any) -> bool:
    return any(INJECTED in template.annotations for template in kind.templates(before))


def _restored(kind: Kind[Any], obj: Any, before: Any) -> list[Edit]:
    """The stored node-pool rules of each template that is still where it was."""
    had = {template.path: template for template in kind.templates(before)}
    pairs = [(template, had[template.path]) for template in kind.templates(obj) if template.path in had]
    return [edit for now, then in pairs for edit in within(now.path, restored(now, then))]


def _of_another_type(
    kind: Kind[Any], obj: Any, new: Any, before: Any, fresh: Injection, context: Context
) -> Sequence[Edit]:
    """What the stored object's own type injects, where the new object asks for another: none of it can change."""
    try:
        injected = [template.annotations.get(INJECTED) for template in kind.templates(before)]
        if {*fresh.types}.issuperset([name for name in injected if name]) or _shape(kind, before) != _shape(kind, obj):
            return ()
        written = [*_written(kind, before, replace(context, stored=True), amounts=True), *_own_keys(kind, before)]
        return [edit for edit in written if isinstance(edit, Put) or _item(new, edit) is None]
    except Denied:
        return ()


def _own_keys(kind: Kind[Any], before: Any) -> Iterator[Put]:
    """Our keys on the stored pod templates. A Pod's own can change."""
    for template in kind.templates(before):
        if template.path:
            for key, value in _levels(template)[-1].items():
                yield Put((*template.path, "metadata", "annotations", key), value)


def _shape(kind: Kind[Any], obj: Any) -> list[Any]:
    """Where the templates are, and the containers in them."""
    return [(t.path, [(where, index, c.name) for where, index, c in t.containers]) for t in kind.templates(obj)]


def _lost(fresh: Sequence[Edit], old: Any) -> tuple[Warn, ...]:
    """One warning about what the new object would have got but the stored one no longer can."""
    lasting = [e for e in without_placement(fresh) if not isinstance(e, Remove)]
    differing = [e for e in lasting if stored(e, old) != e.value]
    if any(e.path[-1] == INJECTED and stored(e, old) is None for e in differing):
        return (Warn("never-injected"),)
    return (Warn("old-kept", {"what": differing[0].path[-1]}),) if differing else ()


def _unheard(kind: Kind[Any], obj: Any, stored_view: Any) -> tuple[Warn, ...]:
    """One warning about a key that was changed around a template which keeps the copy that injection made of it.

    An apply merges: it changes the outer key, which is in the file, and leaves the copy, which is not.
    """
    before = {template.path: template for template in kind.templates(stored_view)}
    file = last_applied(annotations_of(obj.metadata).get(LAST_APPLIED))
    for template in kind.templates(obj):
        if template.path not in before:
            continue
        *outer, near = _levels(template)
        said, had = annotations.nearest_level(outer), annotations.nearest_level(_levels(before[template.path])[:-1])
        copies = [key for key in COPIED if key in had and near.get(key) == had[key][0]]
        own = [key for key in copies if at(file, (*template.path, "metadata", "annotations", key)) is not None]
        for key in copies:
            if key not in own and had[key][0] != said.get(key, ("",))[0]:
                return (Warn("old-kept", {"what": key}),)
    return ()


def judge(kind: Kind[Any], new: Any, old: Any, context: Context) -> Injection:
    """An update of an object that is not injected again: reports what is wrong with it.

    Raises `Denied` if one of our keys was changed to what CREATE would refuse. Anything else passes with a warning:
    status, scale, and whatever was stored before.
    """
    if _is_as_it_was(_unscaled(new), _unscaled(old)):
        return Injection()
    try:
        before, now = view(kind, old), view(kind, new)
        changed = _requests(kind, before) != _requests(kind, now)
        found = inject(kind, now, replace(context, created=False))
    except msgspec.ValidationError as error:
        return tolerated(Denied("unreadable", where="the object", value=error))
    except Denied as denied:
        if changed:
            raise
        return tolerated(denied)
    if not changed:
        return Injection(types=found.types)
    kept = [Warn("type-kept", {"kind": kind.kind})] if kind.patched else []
    return Injection(warnings=(*kept, *found.warnings), types=found.types)


def follow_type(kind: Kind[Any], new: Any, old: Any, context: Context) -> Injection:
    """Injection into `new`, plain JSON like the stored `old`; raises `Denied` if `old` was still valid."""
    if _is_as_it_was(new, old):
        return Injection()
    try:
        before = view(kind, old)
    except msgspec.ValidationError as error:
        return tolerated(Denied("unreadable", where="the stored object", value=error))
    if kind.held_by_kueue and scheduling.kueue_managed([labels_of(before.metadata)]):
        return _kept_by_kueue(kind, new, old, context)
    try:
        stale = list(_stale(kind, new, before, context))
        base = view(kind, without(new, stale))
        injection = inject(kind, base, replace(context, created=False))
    except Denied as denied:
        if _requests(kind, view(kind, new)) != _requests(kind, before) and _understood(kind, before, context):
            raise
        return tolerated(denied)
    injection = _placed_once(kind, _queued_once(kind, injection, base, before, context), base, before, context)
    return replace(injection, leftovers=tuple(stale), base=base)


def restore(kind: Kind[Any], new: Any, old: Any, context: Context) -> Injection:
    """Injection into `new` if `old` was injected: an apply of the same file replaces whole lists, templates included.

    What was stored without injection is only judged: its controller has made Pods of it.
    """
    try:
        before = view(kind, old)
    except msgspec.ValidationError as error:
        return tolerated(Denied("unreadable", where="the stored object", value=error))
    if not _was_injected(kind, before):
        return judge(kind, new, old, context)
    injection = follow_type(kind, new, old, context)
    if kind.rolls(before) or not _other_hardware(kind, new, before, injection, context):
        return injection
    return replace(injection, warnings=(Warn("type-kept", {"kind": kind.kind}), *injection.warnings))


def _other_hardware(kind: Kind[Any], new: Any, before: Any, injection: Injection, context: Context) -> bool:
    """Whether the object asks for another accelerator than before, or its own keys say so."""
    now, had = annotations.own(_plain_annotations(new)), annotations.own(annotations_of(before.metadata))
    if any(now.get(key) != had.get(key) for key in KINDS):
        return True
    try:
        targets = targets_of(kind, before, context)
    except Denied:
        return False
    return bool(injection.types) and {*injection.types} != {t.resolution.accelerator.name for t in targets}


def _kept_by_kueue(kind: Kind[Any], new: Any, old: Any, context: Context) -> Injection:
    """Kueue refuses every change of the templates, and of the size, of what it manages: other updates are to pass.

    Source: https://github.com/kubernetes-sigs/kueue/blob/v0.17.0/pkg/controller/jobs/leaderworkerset/leaderworkerset_webhook.go
    (ValidateUpdate)
    """
    try:
        now = view(kind, new)
    except msgspec.ValidationError as error:
        return tolerated(Denied("unreadable", where="the object", value=error))
    return keep_stored(kind, now, new, old, context)


def _queued_once(kind: Kind[Any], injection: Injection, base: Any, before: Any, context: Context) -> Injection:
    """Without a queue's label on an object that was stored without one: Kueue would refuse the update for it.

    Source: https://github.com/kubernetes-sigs/kueue/blob/89545d53/pkg/controller/jobs/leaderworkerset/leaderworkerset_webhook.go
    """
    where = kind.queued or ("metadata",)
    keys = [key for key in context.site.queues.values() if key.where == "workload"]
    added = [k for k in keys if not scheduling.queue_chosen(at(before, where), k)]
    paths = {scheduling.queue_edit(where, "", key).path for key in added}
    if not paths or not any(edit.path in paths for edit in injection.edits):
        return injection
    sections = [Section(s.path, [e for e in s.edits if s.path + e.path not in paths]) for s in injection.sections]
    changed = _words(kind, base, (QUEUE,)) != _words(kind, before, (QUEUE,))
    warnings = [Warn("old-kept", {"what": path[-1]}) for path in paths] if changed else []
    return replace(injection, sections=tuple(s for s in sections if s.edits), warnings=(*injection.warnings, *warnings))


def _placed_once(kind: Kind[Any], injection: Injection, base: Any, before: Any, context: Context) -> Injection:
    """Without a new node-pool rule for a template that was injected without it, and still has the same hardware:
    another change, be it of the number of replicas, would replace every Pod for it.
    """
    if any(annotations_of(before.metadata).get(key) for key in CHOICES):
        return injection
    now, had = _hardware(kind, base, context), _hardware(kind, before, context)
    old = [template for template in kind.templates(before) if INJECTED in template.annotations]
    without_rule = [t.path for t in old if labels_of(t.view.metadata).multi_host is None]
    kept = [path for path in without_rule if path in now and now[path] == had.get(path)]
    sections = [Section(s.path, without_placement(s.edits)) if s.path in kept else s for s in injection.sections]
    return replace(injection, sections=tuple(s for s in sections if s.edits))


def _hardware(kind: Kind[Any], obj: Any, context: Context) -> dict[Path, Accelerator]:
    """What each template that asks means; nothing if it is not understood."""
    try:
        return {target.template.path: target.resolution.accelerator for target in targets_of(kind, obj, context)}
    except Denied:
        return {}


def _is_as_it_was(new: Any, old: Any) -> bool:
    """Whether neither the spec nor a key that we read has changed: only another annotation, a label, a status."""
    before, now = _plain_annotations(old), _plain_annotations(new)
    if any(before.get(key) != now.get(key) for key in CHOICES):
        return False
    return annotations.own(before) == annotations.own(now) and at(new, ("spec",)) == at(old, ("spec",))


def _unscaled(obj: Any) -> Any:
    """The object without its number of replicas."""
    spec = at(obj, ("spec",))
    return {**obj, "spec": {**spec, "replicas": None}} if isinstance(spec, dict) else obj


def _requests(kind: Kind[Any], obj: Any) -> list[Any]:
    """What the user requests: all of our annotations around the templates, and their placeholders."""
    words: list[Any] = [annotations.own(annotations_of(obj.metadata))]
    for template in kind.templates(obj):
        words += [template.path, *_levels(template), annotations.placeholders(template.containers)]
    return words


def _plain_annotations(obj: Any) -> dict[str, str | None]:
    """Those that are texts: of a kind without a schema they can be anything, which its view reports."""
    found = at(obj, ("metadata", "annotations"))
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def view(kind: Kind[Any], obj: Any) -> Any:
    """Plain JSON values as the kind's view."""
    return msgspec.json.decode(msgspec.json.encode(obj), type=kind.view)


def _understood(kind: Kind[Any], obj: Any, context: Context) -> bool:
    try:
        inject(kind, obj, context)
    except Denied:
        return False
    return True


def _stale(kind: Kind[Any], new: Any, before: Any, context: Context) -> Iterator[Remove]:
    """What the stored object's type injected and the new object's does not."""
    if not _understood(kind, before, context):
        return
    now = view(kind, new)
    files = _files(new)
    told_apart = bool(files) and not _have_placeholder(files)
    alone = _alone(kind, now)
    copies = [where for _, where in _present(new, _copies(kind, now, before, told_apart), alone)]
    own = view(kind, without(new, copies))
    if _words(kind, own, COPIED) == _words(kind, now, COPIED):
        copies = []
    changed = _meant(kind, own) != _meant(kind, before)
    written = _written(kind, before, context, amounts=bool(files))
    hints = frozenset(kind.hints(before))
    found = list(_present(new, (edit for edit in written if changed or not _hint(edit, hints)), alone))
    bare = view(kind, without(new, dict.fromkeys([*copies, *(where for _, where in found)])))
    again = {_known(edit) for edit in _again(kind, bare, before, context) if not isinstance(edit, Remove)}
    stale = [*copies, *(where for edit, where in found if _known(edit) not in again)]
    off = _switches(kind, now)
    yield from (where for where in stale if not _left_alone(off, where.path))


def _again(kind: Kind[Any], bare: Any, before: Any, context: Context) -> Iterator[Edit]:
    """What an object without our values gets: also the placement that it has by earlier rules, if it still fits and
    the hardware is the same, since another one would replace every Pod."""
    injection = inject(kind, bare, context)
    yield from injection.edits
    if injection.types and _hardware(kind, bare, context) == _hardware(kind, before, context):
        earlier = outside(kind, bare, targets_of(kind, bare, context), replace(context, stored=True))
        yield from (edit for edit in _values(earlier) if is_placement(edit))


def _known(edit: Put | Append | Amend) -> tuple[Path, bytes]:
    """An edit as a lookup key."""
    return edit.path, msgspec.json.encode(edit.value)


def _alone(kind: Kind[Any], now: Any) -> list[Path]:
    """The paths that the user wants left alone: templates, or everything."""
    places = list(kind.templates(now))
    off = [
        p.path
        for p in places
        if annotations.read_annotations(p.levels, p.containers, annotations.Levels()).off is not None
    ]
    return [()] if len(off) == len(places) else off


def _switches(kind: Kind[Any], now: Any) -> list[tuple[Path, bool]]:
    """Each template's path, and whether the user has set `accel.io/inject: "false"` for it."""
    found = []
    for template in kind.templates(now):
        word, _ = annotations.nearest_level(_levels(template)).get(INJECT, ("", 0))
        found.append((template.path, word == "false"))
    return found


def _left_alone(off: Sequence[tuple[Path, bool]], path: Path) -> bool:
    """Whether the template at `path` is to be left alone, or all of them if it is in none."""
    within = [switched for template, switched in off if path[: len(template)] == template]
    switches = within or [switched for _, switched in off]
    return bool(switches) and all(switches)


def _hint(edit: Put | Append, hints: Collection[Path]) -> bool:
    """Whether the value also determines what is meant, like amounts of devices."""
    return edit.path in hints or "resources" in edit.path


def _meant(kind: Kind[Any], obj: Any) -> list[Any]:
    """What decides which hardware it is, and how much of it."""
    return [*_words(kind, obj, KINDS), *(at(obj, hint) for hint in kind.hints(obj))]


def _words(kind: Kind[Any], obj: Any, keys: Sequence[str]) -> list[Any]:
    """The values of these keys that apply to each template, and its placeholders."""
    words = []
    for template in kind.templates(obj):
        found = annotations.nearest_level(_levels(template))
        held = annotations.placeholders(template.containers)
        words.append((template.path, [found.get(key, ("",))[0] for key in keys], held))
    return words


def _levels(template: PodTemplate) -> list[dict[str, str]]:
    return [annotations.own(annotations_of(level)) for level in template.levels]


def _copies(kind: Kind[Any], now: Any, before: Any, told_apart: bool) -> Iterator[Put]:
    """Keys of the stored templates that injection may have copied there: from an outer level, from a placeholder
    that the new template has again, or to keep a choice; or any key, if the user's own keys can be distinguished.
    """
    after = {template.path: template for template in kind.templates(now)}
    for template in kind.templates(before):
        *outer, near = _levels(template)
        inherited = annotations.nearest_level(outer)
        from_above = {key for key in COPIED if key in inherited and inherited[key][0] == near.get(key)}
        copies = from_above | set(COPIED if told_apart else ())
        again = after.get(template.path)
        if again is not None and annotations.placeholders(again.containers):
            copies |= {TYPE, CONTAINER}
        if _mode([*outer, near]) == "host" and CONTAINER not in from_above:
            stands = again is not None and _choice_stands(again, outside=MODE in from_above)
            copies = copies - {CONTAINER} if stands else copies | {CONTAINER}
        yield from (
            Put((*template.path, "metadata", "annotations", k), near[k]) for k in COPIED if k in copies and k in near
        )


def _choice_stands(template: PodTemplate, *, outside: bool) -> bool:
    """Whether the mode is still host, and the containers that were chosen for it are still there.

    `outside`: the mode on the template itself is a copy.
    """
    *outer, near = _levels(template)
    names = {container.name for _, _, container in template.containers}
    mode = _mode(outer if outside else [*outer, near])
    return mode == "host" and names.issuperset(near.get(CONTAINER, "").split(","))


def _mode(levels: Sequence[dict[str, str]]) -> str:
    return annotations.nearest_level(levels).get(MODE, ("", 0))[0]


def _written(kind: Kind[Any], before: Any, context: Context, *, amounts: bool) -> Iterator[Put | Append]:
    """Everything that the stored object's type writes into an object that has none of it.

    Unusual amounts of devices only with `amounts`: they may be the user's.
    """
    targets = [Target(*stripped(t.template, t.resolution)) for t in targets_of(kind, before, context)]
    for target in targets:
        found = [f for f in apply_rules(target.template, target.resolution) if not isinstance(f, Warn)]
        ours = amounts or _usual(target.resolution)
        for edit in _values(within(target.template.path, found)):
            if ours or "resources" not in edit.path:
                yield edit
    yield from _values(outside(kind, kind.stripped(before), targets, replace(context, stored=True)))


def _usual(resolution: Resolution) -> bool:
    """Whether the containers have as many devices as the annotations alone give them."""
    hardware = resolution.accelerator
    if hardware.slice is not None:
        return True
    return all(
        device_container.devices == (resolution.request.count or hardware.count or 1)
        for device_container in resolution.device_containers
    )


def _values(found: Any) -> Iterator[Put | Append]:
    for edit in found:
        if isinstance(edit, Put | Append):
            yield edit


def _present(new: Any, ours: Iterable[Put | Append], alone: Sequence[Path]) -> Iterator[tuple[Put | Append, Remove]]:
    """Those of our values that `new` has, with their positions, except those to be left `alone`."""
    seen: set[Path] = set()
    theirs = _Theirs(new)
    for edit in ours:
        if any(edit.path[: len(above)] == above for above in alone):
            continue
        path = edit.path if isinstance(edit, Put) else _item(new, edit)
        if path is None or path in seen or at(new, path) != edit.value or theirs.have(path):
            continue
        seen.add(path)
        yield edit, Remove(path)


def _item(new: Any, edit: Append) -> Path | None:
    items = at(new, edit.path)
    if isinstance(items, list) and edit.value in items:
        return (*edit.path, items.index(edit.value))
    return None


class _Theirs:
    """What the user's own file has: as kept by kubectl, or as recorded by the API server for an apply."""

    def __init__(self, new: Any) -> None:
        self._new = new
        self._applied = _last_applied(new)
        self._fields = {operation: _all_fields(_managers(new, operation)) for operation in ("Apply", "Update")}

    def have(self, path: Path) -> bool:
        """Whether it has the value at `path`.

        Records of other writes include fields that the API server filled in; but it fills in no annotations.
        """
        if at(self._applied, path) is not None:
            return bool(at(self._applied, path) == at(self._new, path))
        operations = ("Apply", "Update") if "annotations" in path else ("Apply",)
        return any(_covers(self._fields[operation], self._new, path) for operation in operations)


def _all_fields(managers: Iterable[Any]) -> dict[str, Any]:
    """The union of the fields of several managers."""
    union: dict[str, Any] = {}
    for manager in managers:
        _add_fields(union, at(manager, ("fieldsV1",)))
    return union


_DEEPEST: Final = 64
"""Levels of managed fields that are searched; what we write is less deep."""


def _add_fields(union: dict[str, Any], fields: Any, depth: int = 0) -> None:
    if depth < _DEEPEST and isinstance(fields, dict):
        for name, below in fields.items():
            _add_fields(union.setdefault(name, {}), below, depth + 1)


def _files(new: Any) -> list[Any]:
    """What is known about the user's file: kubectl's copy, else the fields of applies."""
    if not at(new, ("metadata", "managedFields")):
        return []
    applied = _last_applied(new)
    return [at(m, ("fieldsV1",)) for m in _managers(new, "Apply")] if applied is None else [applied]


def _have_placeholder(files: Sequence[Any]) -> bool:
    """Whether any file has one, or is too deep to be searched."""
    try:
        return any(map(_has_placeholder, files))
    except RecursionError:
        return True


def _has_placeholder(node: Any) -> bool:
    """Whether a file, or the names of its fields, has an `accel.io/` limit anywhere."""
    if isinstance(node, list):
        return any(map(_has_placeholder, node))
    if not isinstance(node, Mapping):
        return False
    return any(
        (key in AMOUNTS and isinstance(value, Mapping) and any(map(_is_ours, value))) or _has_placeholder(value)
        for key, value in node.items()
    )


def _is_ours(name: str) -> bool:
    return name.removeprefix("f:").startswith(PREFIX)


def _managers(new: Any, operation: str) -> Iterator[Any]:
    notes = at(new, ("metadata", "managedFields"))
    return (m for m in (notes if isinstance(notes, list) else ()) if at(m, ("operation",)) == operation)


def _last_applied(new: Any) -> Any:
    return last_applied(at(new, ("metadata", "annotations", LAST_APPLIED)))


def _covers(fields: Any, obj: Any, path: Path) -> bool:
    """Whether managed fields contain this field; list items are identified by their keys, and a list without keys
    is one field."""
    for segment in path:
        if fields == {} and isinstance(segment, int):
            return True
        obj = child(obj, segment)
        name = at(obj, ("name",)) if isinstance(segment, int) else None
        key = f"f:{segment}" if name is None else "k:" + msgspec.json.encode({"name": name}).decode()
        fields = fields.get(key) if isinstance(fields, Mapping) else None
        if fields is None:
            return False
    return True
