"""An UPDATE of a workload whose templates can change: what the stored object's type left in it goes. Pure.

The API server merges: an apply keeps every field that the file does not name, so after a change of type the old
type's node selectors, tolerations and copied keys are still there, and would pass for the user's. What equals a
value that the stored object's type injects is ours, unless the user's file has it: the API server notes which fields
an apply has, and kubectl keeps the file.
Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from webhook import annotations
from webhook.annotations import CONTAINER, COPIED, TYPE
from webhook.inject import Injection, inject, refused, targets_of
from webhook.kinds.workload import Setting, Target, Workload
from webhook.messages import Denied, Warn
from webhook.mutators import mutate
from webhook.patch import Amend, Append, Path, Put, Remove, at, without
from webhook.pod import annotations_of, containers_of
from webhook.resolution import Place, unfilled

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Source: https://kubernetes.io/docs/reference/labels-annotations-taints/#kubectl-kubernetes-io-last-applied-configuration"""
KINDS = (TYPE, *annotations.VOIDED)
"""The keys that say which hardware."""


def reinject(workload: Workload, new: Any, old: Any, setting: Setting) -> Injection:
    """Injection into `new`, plain JSON like the stored `old`; raises `Denied` where `old` was still understood."""
    before = view(workload, old)
    try:
        stale = list(_stale(workload, new, before, setting))
        base = view(workload, without(new, stale))
        injection = inject(workload, base, setting)
    except Denied as denied:
        if _understood(workload, before, setting):
            raise
        return refused(denied)
    return msgspec.structs.replace(injection, leftovers=tuple(stale), base=base)


def view(workload: Workload, obj: Any) -> Any:
    """Plain JSON values as the kind's view."""
    return msgspec.json.decode(msgspec.json.encode(obj), type=workload.view)


def _understood(workload: Workload, obj: Any, setting: Setting) -> bool:
    try:
        inject(workload, obj, setting)
    except Denied:
        return False
    return True


def _stale(workload: Workload, new: Any, before: Any, setting: Setting) -> Iterator[Remove]:
    """What the stored object's type injected and the new object's does not."""
    if not _understood(workload, before, setting):
        return
    now = view(workload, new)
    copies = [where for _, where in _present(new, _copies(workload, now, before))]
    own = view(workload, without(new, copies))
    if _words(workload, own, COPIED) == _words(workload, now, COPIED):
        copies = []
    changed = _words(workload, own, KINDS) != _words(workload, before, KINDS)
    ours = (edit for edit in _written(workload, before, setting) if changed or edit.path not in workload.hints)
    found = list(_present(new, ours))
    bare = view(workload, without(new, dict.fromkeys([*copies, *(where for _, where in found)])))
    again = [(edit.path, edit.value) for edit in inject(workload, bare, setting).edits if not isinstance(edit, Remove)]
    yield from copies
    for edit, where in found:
        if (edit.path, edit.value) not in again:
            yield where


def _words(workload: Workload, obj: Any, keys: Sequence[str]) -> list[Any]:
    """What each template hears of these keys, and the placeholders that it holds."""
    words = []
    for place in workload.places(obj):
        found = annotations.nearest_level(_levels(place))
        held = annotations.placeholders(list(containers_of(place.template.spec)))
        words.append((place.path, [found.get(key, ("",))[0] for key in keys], held))
    return words


def _levels(place: Place) -> list[dict[str, str]]:
    return [annotations.own(annotations_of(level)) for level in place.levels]


def _copies(workload: Workload, now: Any, before: Any) -> Iterator[Put]:
    """Keys of the stored templates that injection copied there: from an outer level, or from a placeholder that
    stands in the new template again."""
    placeholders = {
        p.path for p in workload.places(now) if annotations.placeholders(list(containers_of(p.template.spec)))
    }
    for place in workload.places(before):
        *outer, near = _levels(place)
        said = annotations.nearest_level(outer)
        for key in COPIED:
            copied = key in said and said[key][0] == near.get(key)
            if copied or (key in near and key in (TYPE, CONTAINER) and place.path in placeholders):
                yield Put(place.at("metadata", "annotations", key), near[key])


def _written(workload: Workload, before: Any, setting: Setting) -> Iterator[Put | Append]:
    """Everything that the stored object's type writes into an object that has none of it."""
    targets = [Target(*unfilled(t.place, t.resolution)) for t in targets_of(workload, before, setting)]
    for target in targets:
        yield from _values(mutate(target.place, target.resolution))
    yield from _values(workload.findings(workload.unfilled(before), targets, setting))


def _values(found: Any) -> Iterator[Put | Append]:
    return (edit for edit in found if not isinstance(edit, Warn | Amend | Remove))


def _present(new: Any, ours: Iterable[Put | Append]) -> Iterator[tuple[Put | Append, Remove]]:
    """Those of our values that `new` has, with the place where each stands."""
    seen: set[Path] = set()
    applied = _last_applied(new)
    for edit in ours:
        path = edit.path if isinstance(edit, Put) else _item(new, edit)
        if path is None or path in seen or at(new, path) != edit.value or _claimed(new, applied, path):
            continue
        seen.add(path)
        yield edit, Remove(path)


def _item(new: Any, edit: Append) -> Path | None:
    items = at(new, edit.path)
    if isinstance(items, list) and edit.value in items:
        return (*edit.path, items.index(edit.value))
    return None


def _claimed(new: Any, applied: Any, path: Path) -> bool:
    """Whether the user's own file has this very value: as kubectl keeps it, or as the API server notes it of an apply.

    Other writers' notes tell nothing: they name fields that the API server filled in as well.
    """
    if at(applied, path) is not None:
        return bool(at(applied, path) == at(new, path))
    managers = at(new, ("metadata", "managedFields")) or ()
    return any(_covers(at(m, ("fieldsV1",)), path) for m in managers if at(m, ("operation",)) == "Apply")


def _last_applied(new: Any) -> Any:
    """What kubectl's client-side apply sent last; None where that is not known."""
    text = at(new, ("metadata", "annotations", LAST_APPLIED))
    try:
        return msgspec.json.decode(text) if isinstance(text, str) else None
    except msgspec.DecodeError:
        return None


def _covers(fields: Any, path: Path) -> bool:
    for segment in path:
        fields = fields.get(f"f:{segment}") if isinstance(fields, Mapping) else None
        if fields is None:
            return False
    return True
