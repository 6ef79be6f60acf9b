"""RFC 6902 operations on YAML text: only what they touch changes, everything else stays byte for byte. Pure.

Text is not printed anew from values, since comments, quotes, indentation and folding would be another's then.
Every result is read again and compared with what the operations mean, so that a slip here cannot reach a cluster.
"""

import copy
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jsonpatch
import msgspec

from webhook import node
from webhook.layout import Layout
from webhook.node import Document, Node
from webhook.patch import pointer

Change = dict[str, Any]
"""An operation as JSON values, so that what a patch library wants and what came over the wire is as good as ours."""

_COLON = re.compile(r"\s*:")


class _Stuck(Exception):
    """This layout of text cannot be edited in place."""


def rewrite(document: Document, operations: Sequence[Change]) -> tuple[str, bool]:
    """The document's text after the operations, and whether its own layout could be kept.

    Aliases stay where they can: `template: *worker` does where the edits of `&worker` are its own too. Else they
    and `<<` are written out.
    """
    if not operations:
        return document.text, True
    want = jsonpatch.apply_patch(node.plain(document.root), list(operations))
    for expand in (False, True):
        try:
            text = _Page(document, expand).after(operations)
            if [node.plain(d.root) for d in node.documents(text)] == [want]:
                return text, True
        except (_Stuck, node.BadYaml):
            continue
    return printed(want, document.text), False


def printed(value: Any, before: str = "") -> str:
    """A value as block YAML, with the document marker that `before` has."""
    marker = "---\n" if before.startswith("---") else ""
    return marker + "\n".join(Layout().lines(value)) + "\n"


class _New(msgspec.Struct, eq=False):
    """A value that has no text yet."""

    value: Any


class _Entry(msgspec.Struct, eq=False):
    """One entry of a mapping, or item of a sequence (`key` and `name` are empty then)."""

    child: "_Child"
    old: Node | None = None  # None: there is no text of it yet
    key: Node | None = None
    name: str = ""


class _Branch(msgspec.Struct, eq=False):
    """A mapping or sequence that can be changed."""

    node: Node
    entries: list[_Entry]
    gone: list[_Entry] = []


_Child = _Branch | _New | Node
_Splice = tuple[int, int, str]


def _thaw(original: Node, expand: bool) -> _Child:
    """A node made changeable; with `expand`, without aliases and merge keys."""
    if original.kind == "alias" and expand:
        return _New(node.plain(original))
    if original.kind == "sequence":
        return _Branch(original, [_Entry(_thaw(item, expand), item) for item in original.items])
    if original.kind != "mapping":
        return original
    rows = zip(original.names, original.keys, original.items, strict=True)
    entries = [_Entry(_thaw(item, expand), item, key, name) for name, key, item in rows]
    merges = [e for e in entries if expand and e.key and node.is_merge(e.name, e.key)]
    own = [e for e in entries if e not in merges]
    names = {e.name for e in own}
    more = [_Entry(_New(v), name=k) for k, v in node.plain(original).items() if k not in names] if merges else []
    return _Branch(original, own + more, merges)


def _value(child: _Child) -> Any:
    if isinstance(child, _New):
        return child.value
    if isinstance(child, Node):
        return node.plain(child)
    if child.node.kind == "sequence":
        return [_value(entry.child) for entry in child.entries]
    if any(e.key is not None and node.is_merge(e.name, e.key) for e in child.entries):
        raise _Stuck
    return {entry.name: _value(entry.child) for entry in child.entries}


class _Page:
    """One document's text while it is changed."""

    def __init__(self, document: Document, expand: bool) -> None:
        self._text = document.text
        self._expand = expand
        self._newline = "\r\n" if "\r\n" in document.text else "\n"
        self._layout = Layout.of(document.root)
        self._root = document.root

    def after(self, operations: Sequence[Change]) -> str:
        root = _thaw(self._root, self._expand)
        for operation in operations:
            path = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
            self._apply(root, path, operation)
        splices = list(self._splices(root))
        if any(start == len(self._text) for start, _, _ in splices):
            splices += self._unended(self._root)
        return self._spliced(splices)

    def _unended(self, last: Node) -> list[_Splice]:
        """A `|` text at the end of a file without a final newline has none either, and must not get one: `|-`."""
        while last.items:
            last = last.items[-1]
        header = self._text[last.start : last.end].partition("\n")[0]
        block = last.end == len(self._text) and header[:1] in ("|", ">") and not set(header) & set("+-")
        return [(last.start + 1, last.start + 1, "-")] if block else []

    def _spliced(self, splices: list[_Splice]) -> str:
        parts, done = [], 0
        for start, end, text in sorted(splices, key=lambda splice: splice[0]):
            if start < done:
                raise _Stuck
            parts += [self._text[done:start], text.replace("\n", self._newline)]
            done = end
        return "".join([*parts, self._text[done:]])

    def _apply(self, child: _Child, path: Sequence[str], operation: Change) -> None:
        """Walk to the parent of what the operation names, and change it there."""
        if not isinstance(child, _Branch) or not path:
            raise _Stuck
        if len(path) == 1:
            return self._change(child, path[0], operation)
        entry = _entry(child, path[0])
        if entry is None or (isinstance(entry.child, Node) and entry.child.kind == "alias"):
            return None  # another's text: perhaps its owner is changed in the same way
        if isinstance(entry.child, _New):
            below = {**operation, "path": pointer(tuple(path[1:]))}
            entry.child.value = jsonpatch.apply_patch(copy.deepcopy(entry.child.value), [below])
            return None
        return self._apply(entry.child, path[1:], operation)

    def _change(self, branch: _Branch, name: str, operation: Change) -> None:
        kind = operation["op"]
        entry = None if kind == "add" and branch.node.kind == "sequence" else _entry(branch, name)
        if kind == "remove":
            if entry is None:
                raise _Stuck
            branch.entries.remove(entry)
            branch.gone += [entry] if entry.old is not None else []
            return
        value = _New(copy.deepcopy(operation["value"]))
        if entry is not None:
            entry.child = value
        elif branch.node.kind == "sequence":
            index = len(branch.entries) if name == "-" else int(name)
            branch.entries.insert(index, _Entry(value))
        else:
            first = name == "metadata"  # where people look for it
            branch.entries.insert(0 if first else len(branch.entries), _Entry(value, name=name))

    def _splices(self, child: _Child, label: int = -1) -> Iterator[_Splice]:
        """What is to be put in place of which text. `label`: where the line of the collection's own key ends."""
        if not isinstance(child, _Branch):
            return
        kept = [entry for entry in child.entries if entry.old is not None]
        if not kept and (child.gone or child.entries):
            yield self._whole(child)
        elif child.node.flow and child.gone:
            yield (child.node.start, child.node.end, self._layout.flow(_value(child)))
        else:
            for entry in kept:
                yield from self._entry_splices(child, entry)
            yield from self._added_flow(child) if child.node.flow else self._added_block(child, label)
            for entry in child.gone:
                yield self._removed(child, entry)

    def _whole(self, branch: _Branch) -> _Splice:
        """Nothing of the old text is left."""
        value, old = _value(branch), branch.node
        if old.flow or not value:
            return (old.start, old.end, self._layout.flow(value))
        return (old.start, old.end, _indented(self._layout.lines(value), old.column))

    def _entry_splices(self, branch: _Branch, entry: _Entry) -> Iterator[_Splice]:
        child, old = entry.child, entry.old
        assert old is not None
        if isinstance(child, _Branch) and child.node.flow and not child.node.items and child.entries:
            child = _New(_value(child))  # `annotations: {}` becomes a block where it can
        if isinstance(child, _New):
            yield from self._replaced(branch, entry, old, child.value)
        else:
            label = self._line_end(self._after_colon(entry.key)) if entry.key and not branch.node.flow else -1
            yield from self._splices(child, label)

    def _replaced(self, branch: _Branch, entry: _Entry, old: Node, value: Any) -> Iterator[_Splice]:
        nested = isinstance(value, dict | list) and bool(value)
        if nested and not entry.key and not branch.node.flow:
            yield (old.start, old.end, _indented(self._layout.lines(value), old.column))
            return
        if branch.node.flow or not nested:
            text = self._layout.flow(value) if nested or branch.node.flow else self._layout.scalar(value)
            yield (old.start, old.end, text if old.end > old.start else " " + text)
            return
        if entry.key is None:
            raise _Stuck
        start, end = self._after_colon(entry.key), self._line_end(old.end)
        yield (start, old.end, "")
        lines = self._layout.nested(value)
        yield (end, end, "\n" + " " * branch.node.column + _indented(lines, branch.node.column))

    def _added_block(self, branch: _Branch, label: int) -> Iterator[_Splice]:
        """New entries stand after the line of the entry before them."""
        column = branch.node.column
        last: Node | None = None
        for entry in branch.entries:
            if entry.old is not None:
                last = entry.old
                continue
            value = _value(entry.child)
            lines = self._layout.lines({entry.name: value} if branch.node.kind == "mapping" else [value])
            text = _indented(lines, column)
            if last is not None:
                at = self._line_end(last.end)
            elif 0 <= label < branch.node.start:
                at = label
            else:
                yield (branch.node.start, branch.node.start, text + "\n" + " " * column)
                continue
            yield (at, at, "\n" + " " * column + text)

    def _added_flow(self, branch: _Branch) -> Iterator[_Splice]:
        mapping = branch.node.kind == "mapping"
        olds = [entry.old for entry in branch.entries if entry.old is not None]
        for index, entry in enumerate(branch.entries):
            if entry.old is not None:
                continue
            value = _value(entry.child)
            label = self._layout.flow_key(entry.name) + ": " if mapping else ""
            later = next((e.key or e.old for e in branch.entries[index:] if e.old is not None), None)
            if later is not None:
                yield (later.start, later.start, label + self._layout.flow(value) + ", ")
            else:
                yield self._appended(branch.node, olds[-1], label, value)

    def _appended(self, flow: Node, last: Node, label: str, value: Any) -> _Splice:
        """Behind the last item between brackets; on lines of its own where that one has its own."""
        rest = self._text[last.end : flow.end - 1]
        if "#" in rest:
            raise _Stuck
        comma = rest.find(",")
        at = last.end if comma < 0 else last.end + comma + 1
        separator = "," if comma < 0 else ""
        if "\n" not in rest:
            return (at, at, f"{separator} {label}{self._layout.flow(value)}")
        line = self._text[self._text.rfind("\n", 0, last.start) + 1 :]
        margin = "\n" + line[: len(line) - len(line.lstrip(" \t"))]
        lines = self._layout.flow(value)
        if self._layout.json:
            lines = json.dumps(value, indent=self._layout.step).replace("\n", margin)
        return (at, at, separator + margin + label + lines)

    def _removed(self, branch: _Branch, entry: _Entry) -> _Splice:
        """The lines of a key or an item, which must have them for itself."""
        old = entry.old
        assert old is not None
        begin = self._text.rfind("\n", 0, entry.key.start if entry.key else old.start) + 1
        while not entry.key and self._text[begin : begin + branch.node.column + 1].strip() != "-":
            if begin <= branch.node.start - branch.node.column:
                raise _Stuck
            begin = self._text.rfind("\n", 0, begin - 1) + 1
        if self._text[begin : begin + branch.node.column].strip():
            return self._moved_up(branch, entry)
        end = self._text.find("\n", old.end)
        return (begin, len(self._text) if end < 0 else end + 1, "")

    def _moved_up(self, branch: _Branch, entry: _Entry) -> _Splice:
        """The first key on the line of its dash: the next key takes its place."""
        nearest = next((e.key for e in branch.entries if e.key is not None), None)
        if entry.key is None or entry.old is None or nearest is None or nearest.start < entry.old.end:
            raise _Stuck
        if self._text[entry.old.end : nearest.start].strip():
            raise _Stuck
        return (entry.key.start, nearest.start, "")

    def _after_colon(self, key: Node) -> int:
        match = _COLON.match(self._text, key.end)
        if match is None:
            raise _Stuck
        return match.end()

    def _line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        end = len(self._text) if end < 0 else end
        return end - 1 if end > at and self._text[end - 1] == "\r" else end


def _entry(branch: _Branch, name: str) -> _Entry | None:
    if branch.node.kind == "sequence":
        return branch.entries[int(name)]
    return next((entry for entry in branch.entries if entry.name == name), None)


def _indented(lines: Sequence[str], column: int) -> str:
    """The first line as it is: its caller has already put it at its column."""
    return ("\n" + " " * column).join(lines)
