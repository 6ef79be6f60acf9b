"""Keys of ours that have no effect where they are: as a label, in a spec, misspelt, null. Pure.

Each produces a warning. The whole object is searched only if it has more keys of ours than injection has read.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from webhook.core import annotations, limits
from webhook.core.annotations import NAME, PREFIX
from webhook.core.messages import Warn
from webhook.core.patch import Path
from webhook.core.schema.pod import Metadata, Resources

SHORT: Final = "accel/"
LABELS: Final = frozenset([PREFIX + name for name in ("whole-node", "multi-host", "slice")])
"""Labels that injection writes."""

_STEPS: Final = 4
_PLACE: Final = 40
"""A warning shows only the end of a path: at most so many steps, and so many characters."""

_OCCURRENCES: Final = 64
"""The search ends after so many keys."""


def has_more_than(read: int, raw: bytes) -> bool:
    """Whether more strings in the object begin with our name, or its short form, than were read.

    In managedFields they begin with "f:". Most objects are searched once: nothing else in them begins like our name.
    """
    if raw.count(b'"accel') == read:
        return False
    return raw.count(b'"accel.io') + raw.count(b'"accel/') != read


def is_ours(key: str) -> bool:
    """Whether a key is one of ours, or was meant to be: `accel.io.type`, `accel/type`; not `accel.io.example/type`."""
    if not key.startswith((NAME, SHORT)) or key in LABELS:
        return False
    return key.startswith((PREFIX, SHORT)) or "/" not in key


def unread(value: Any, view: Any) -> list[Warn]:
    """A warning for each key of ours in `value`, the object as plain JSON, where `view` does not read keys."""
    read = frozenset(_read(view))
    found: dict[str, Warn] = {}
    occurrences = 0
    for place, keys in _keys(value):
        path = _path(place)
        for key, item in keys:
            if path in read and item is not None and key.startswith(PREFIX):
                continue
            found.setdefault(key, _warning(path, key, item, is_read=path in read))
            occurrences += 1
        if len(found) >= limits.WARNINGS or occurrences >= _OCCURRENCES:
            break
    return list(found.values())[: limits.WARNINGS]


def _warning(path: Path, key: str, item: Any, *, is_read: bool) -> Warn:
    if is_read and item is not None:
        return Warn("unknown-key", {"key": key[:48], "nearest": annotations.nearest(key)})
    place = ".".join(map(str, path[-_STEPS:]))
    why = (
        "it is null" if item is None else "labels are not read" if path[-1:] == ("labels",) else "it is not read there"
    )
    return Warn("unread-key", {"key": key[:40], "place": place[-_PLACE:], "why": why})


def has_any(value: Any) -> bool:
    """Whether an object of an unknown kind has a key of ours anywhere."""
    return next(_keys(value), None) is not None


def _keys(value: Any) -> Iterator[tuple[Any, list[tuple[str, Any]]]]:
    """Each map that has keys of ours, with them. A place is (parent's place, step): no long paths are copied."""
    stack: list[tuple[Any, Any]] = [(value, None)]
    while stack:
        node, place = stack.pop()
        if isinstance(node, dict):
            ours = [(key, item) for key, item in node.items() if is_ours(key)]
            if ours:
                yield place, ours
            stack += [(item, (place, key)) for key, item in node.items() if isinstance(item, dict | list)]
        else:
            stack += [(item, (place, i)) for i, item in enumerate(node) if isinstance(item, dict | list)]


def _path(place: Any) -> Path:
    steps: list[str | int] = []
    while place is not None:
        place, step = place
        steps.append(step)
    return tuple(reversed(steps))


def parts(node: Any, path: Path = ()) -> Iterator[tuple[Path, Metadata | Resources]]:
    """All metadata and resources in a view, with their paths."""
    if isinstance(node, Metadata | Resources):
        yield path, node
    elif isinstance(node, msgspec.Struct):
        for field in node.__struct_fields__:
            yield from parts(getattr(node, field), (*path, field))
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from parts(item, (*path, index))
    elif isinstance(node, dict):
        for key, item in node.items():
            yield from parts(item, (*path, key))


def _read(view: Any) -> Iterator[Path]:
    """The maps of a view in which our keys are read."""
    for path, part in parts(view):
        if isinstance(part, Metadata):
            yield (*path, "annotations")
        else:
            yield (*path, "limits")
            yield (*path, "requests")
