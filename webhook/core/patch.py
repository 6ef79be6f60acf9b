"""Edits, and the one place that knows JSON Pointer and JSON Patch (RFC 6901, RFC 6902). Pure.

A rule says what should be true of an object; `render` works out which operations make it so: it creates
missing or null parents, escapes names, merges what is under one new parent into one operation, and of
two edits of the same place keeps the first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import msgspec

from webhook.core.schema.operation import Operation
from webhook.core.schema.pod import Labels

Path = tuple[str | int, ...]


@final
@dataclass(init=False)
class Put:
    """The field or map entry at `path` has this value."""

    path: Path
    value: Any

    def __init__(self, path: Path, value: Any) -> None:
        self.path = path
        self.value = value


@final
@dataclass(init=False)
class Append:
    """The list at `path` has this item: at its end, or before the item that now has the index `before`.

    `key` names the item's fields that identify it among its neighbours (a container's env: "name").
    """

    path: Path
    value: dict[str, Any]
    key: tuple[str, ...]
    before: int | None

    def __init__(self, path: Path, value: dict[str, Any], key: tuple[str, ...], before: int | None = None) -> None:
        self.path = path
        self.value = value
        self.key = key
        self.before = before


@final
@dataclass(init=False)
class Amend:
    """The item of the list at `path` that now has this index, and is known by `key`, has these fields."""

    path: Path
    index: int
    value: dict[str, Any]
    key: tuple[str, ...]

    def __init__(self, path: Path, index: int, value: dict[str, Any], key: tuple[str, ...]) -> None:
        self.path = path
        self.index = index
        self.value = value
        self.key = key


@final
@dataclass(frozen=True)
class Remove:
    """There is nothing at `path`. A list item is named by its index; `item` has the fields that identify it."""

    path: Path
    item: tuple[tuple[str, str], ...] = ()


Edit = Put | Append | Amend | Remove


@final
@dataclass(init=False)
class Section:
    """The edits of one part of an object; their paths are relative to it.

    A pod template's edits are the same wherever the template is. No section's edits reach into another's part.
    """

    path: Path
    edits: Sequence[Edit]

    def __init__(self, path: Path, edits: Sequence[Edit]) -> None:
        self.path = path
        self.edits = edits


def within(path: Path, edits: Iterable[Edit]) -> list[Edit]:
    """A section's edits with paths that begin at the object."""
    return [replace(edit, path=path + edit.path) for edit in edits] if path else list(edits)


def child(node: Any, segment: str | int) -> Any:
    """One step down a typed view or a decoded JSON value; None where there is nothing."""
    if isinstance(node, dict):
        return node.get(segment)
    if isinstance(segment, int):
        return node[segment] if isinstance(node, list) and segment < len(node) else None
    if node is None or isinstance(node, (list, str, int, float)):
        return None
    if type(node) is Labels:
        return node.get(segment)
    return getattr(node, segment)  # of a view: an undeclared field is our mistake, and must not pass for an absent one


def at(root: Any, path: Path) -> Any:
    """The value at `path`; None where it, or a parent, is missing or null."""
    for segment in path:
        root = child(root, segment)
        if root is None:
            return None
    return root


def pointer(path: Path) -> str:
    """RFC 6901."""
    return "".join([_escaped(segment) for segment in path])


def steps(text: str) -> list[str]:
    """The steps of an RFC 6901 pointer, each as it is in the object."""
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


class _Location:
    """A path that our own rules write to, and what follows from it alone."""

    def __init__(self, path: Path, above: "_Location | None") -> None:
        self.above = above
        self.name = path[-1] if path else ""
        self.pointer = pointer(path)  # of the template's own; a place is known by it


_LOCATIONS: Final[dict[Path, _Location]] = {}
_MAX_LOCATIONS: Final = 4096


def _location(path: Path) -> _Location:
    """Our rules' paths are few and short, so they are kept; a user's words (a name, a key) never are."""
    known = _LOCATIONS.get(path)
    if known is not None:
        return known
    if len(_LOCATIONS) >= _MAX_LOCATIONS:  # containers have numbers, and a user may have many
        _LOCATIONS.clear()
    made = _LOCATIONS[path] = _Location(path, _location(path[:-1]) if path else None)
    return made


def _escaped(segment: str | int) -> str:
    return "/" + str(segment).replace("~", "~0").replace("/", "~1")


def render(root: Any, sections: Iterable[Section]) -> list[Operation]:
    """The operations that make the edits true of the object that `root` is a view of."""
    operations: list[Operation] = []
    for section in sections:
        operations += _rendered(at(root, section.path), pointer(section.path), section.edits)
    return operations


def _rendered(root: Any, text: str, edits: Sequence[Edit]) -> list[Operation]:
    page = _PatchBuilder(root, text)
    for edit in edits:
        if isinstance(edit, Put):
            page.put(edit)
        elif isinstance(edit, Append):
            page.append(edit)
        elif isinstance(edit, Amend):
            page.amend(edit)
        else:
            page.remove(edit)
    return page.operations()


class _PatchBuilder:
    """The operations so far. Additions go first, in order; removals last and from the back, so that the
    index of an item means the same to every operation. Places are known by their pointers."""

    def __init__(self, root: Any, text: str) -> None:
        self._text = text  # the pointer to `root`
        self._there: dict[str, Any] = {"": root}  # edits have most of their parents in common
        self._ops: list[Operation] = []
        self._removals: list[Path] = []
        self._seen: set[object] = set()
        self._new: dict[str, Any] = {}  # parents that these operations create
        self._shift: dict[str, list[int]] = {}  # where items were put into an existing list

    def _at(self, spot: _Location) -> Any:
        """What stands there in the object; what is there is walked to once."""
        found = self._there.get(spot.pointer)
        if found is None and spot.above is not None:
            found = child(self._at(spot.above), spot.name)
            if found is not None:
                self._there[spot.pointer] = found
        return found

    def _do(self, op: str, pointer: str, value: Any) -> None:
        self._ops.append(Operation(op, self._text + pointer, value))

    def _is_known(self, place: object) -> bool:
        """Whether an earlier edit took this place; from now on one has."""
        before = len(self._seen)
        self._seen.add(place)
        return len(self._seen) == before

    def put(self, edit: Put) -> None:
        spot, value = _location(edit.path), edit.value
        if self._is_known(spot.pointer):
            return
        parents = spot.above
        assert parents is not None, "the object itself is not ours to put"
        parent = self._at(parents)
        if parent is None:
            self._new_parent(parents, {})[spot.name] = value
            return
        old = child(parent, spot.name)
        if old is None:
            self._do("add", spot.pointer, value)
        elif old != value:
            self._do("replace", spot.pointer, value)

    def append(self, edit: Append) -> None:
        spot, value = _location(edit.path), edit.value
        if self._is_known((spot.pointer, _identity(value, edit.key))):
            return
        if self._at(spot) is None:
            self._new_parent(spot, []).append(value)
            return
        if edit.before is None:
            self._do("add", spot.pointer + "/-", value)
        else:
            self._do("add", f"{spot.pointer}/{self._shifted(spot, edit.before)}", value)
            self._shift.setdefault(spot.pointer, []).append(edit.before)

    def amend(self, edit: Amend) -> None:
        spot = _location(edit.path)
        item, index = child(self._at(spot), edit.index), self._shifted(spot, edit.index)
        for field, value in edit.value.items():
            if field not in edit.key and child(item, field) != value:
                self._do("add", f"{spot.pointer}/{index}{_escaped(field)}", value)

    def _shifted(self, spot: _Location, index: int) -> int:
        """The index of an item now that others were inserted before it."""
        return index + sum(1 for before in self._shift.get(spot.pointer, ()) if before <= index)

    def remove(self, edit: Remove) -> None:
        place = pointer(edit.path)
        if place not in self._seen and at(self._there[""], edit.path) is not None:
            self._seen.add(place)
            self._removals.append(edit.path)

    def operations(self) -> list[Operation]:
        if self._removals:
            removals = sorted(self._removals, key=_backwards, reverse=True)
            self._ops += [Operation("remove", self._text + pointer(path)) for path in removals]
        return self._ops

    def _new_parent(self, spot: _Location, empty: Any) -> Any:
        """The new parent that holds the children of `spot`, where the object has nothing."""
        made = self._new.get(spot.pointer)
        if made is not None:
            return made
        self._new[spot.pointer] = empty
        above = spot.above
        if above is not None and self._at(above) is None:
            self._new_parent(above, {})[spot.name] = empty
        else:
            self._do("add", spot.pointer, empty)
        return empty


def _identity(item: dict[str, Any], key: tuple[str, ...]) -> object:
    """What distinguishes an item from the others of its list."""
    return str(item.get(key[0])) if len(key) == 1 else tuple([str(item.get(name)) for name in key])


def _backwards(path: Path) -> tuple[tuple[int, str], ...]:
    """A sort key: indexes by number, names by letter, so that reversed it removes later items first."""
    return tuple((segment, "") if isinstance(segment, int) else (-1, segment) for segment in path)


def without(root: Any, removals: Iterable[Remove]) -> Any:
    """A copy of plain JSON values without these items."""
    copy = msgspec.json.decode(msgspec.json.encode(root))
    for path in sorted((r.path for r in removals), key=_backwards, reverse=True):
        del at(copy, path[:-1])[path[-1]]
    return copy


def as_was(edits: Iterable[Edit], old: Any) -> list[Edit]:
    """The same edits with the values that `old` has at their places, and none where it has none.

    For kinds whose templates cannot change after creation: a second apply must end in the stored object, not
    in what today's rules would say. `old` is the stored object as plain JSON values.
    """
    kept: list[Edit] = []
    for edit in edits:
        found = stored(edit, old)
        if isinstance(edit, Remove):
            if found is None:
                kept.append(edit)
        elif found is not None:
            kept.append(replace(edit, value=found))
    return kept


def stored(edit: Edit, old: Any) -> Any:
    """What `old`, as plain JSON values, has at the edit's place; None where it has nothing."""
    if isinstance(edit, Remove) and edit.item:
        return _find(at(old, edit.path[:-1]), dict(edit.item))
    if not isinstance(edit, Append | Amend):
        return at(old, edit.path)
    items = at(old, edit.path)
    if isinstance(edit, Append) and isinstance(items, list) and edit.value in items:  # before a user's of the same key
        return edit.value
    return _find(items, {key: edit.value.get(key) for key in edit.key})


def _find(items: Any, fields: Mapping[str, Any]) -> Any:
    """The first item of a list that has these fields; None where none has."""
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and all(item.get(key) == value for key, value in fields.items()):
            return item
    return None
