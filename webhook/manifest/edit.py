"""RFC 6902 operations on YAML text: only what they touch changes, everything else stays byte for byte. Pure.

Text is not regenerated from values, since that would lose comments, quotes, indentation and folding.
Every result is parsed again and compared with what the operations mean, so that a bug here cannot reach a cluster.
"""

import copy
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jsonpatch
import msgspec

from webhook.core.patch import pointer, steps
from webhook.core.yaml import nodes
from webhook.core.yaml.file_limits import OF_RESULT
from webhook.core.yaml.nodes import Document, Node
from webhook.errors import BadYaml
from webhook.manifest.style import Layout

Change = dict[str, Any]
"""An operation as JSON values, interchangeable with what a patch library takes and what comes over the wire."""

_COLON = re.compile(r"[ \t\r\n]*+:")


class CannotEditInPlace(Exception):
    """This text layout cannot be edited in place."""


class Splice(NamedTuple):
    """Text that replaces other text, or is inserted."""

    start: int
    end: int
    text: str


class Rewritten(msgspec.Struct, frozen=True):
    """A document after the operations."""

    text: str
    value: Any
    splices: tuple[Splice, ...] = ()
    """What in the document's text was replaced, in order."""
    kept: bool = True
    """Whether its layout could be kept; otherwise it is one splice."""


def rewrite(document: Document, operations: Sequence[Change]) -> Rewritten:
    """The document after the operations. Raises `BadYaml` if it is not JSON-compatible.

    Aliases stay where possible: `template: *worker` does if the edits to `&worker` apply to it too. Otherwise they
    and `<<` are expanded.
    """
    value = nodes.plain(document.root)
    if not operations:
        return Rewritten(document.text, value)
    want = jsonpatch.apply_patch(value, copy.deepcopy(list(operations)), in_place=True)
    for expand in (False, True):
        try:
            splices = _Page(document, expand).splices(operations)
            text = spliced(document.text, splices)
            if [nodes.plain(d.root) for d in nodes.documents(text, OF_RESULT)] == [want]:
                return Rewritten(text, want, tuple(splices))
        except (CannotEditInPlace, BadYaml):
            continue
    text = printed(want, document.text)
    return Rewritten(text, want, (Splice(0, len(document.text), text),), kept=False)


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """The text with the splices, which are sorted and do not overlap."""
    parts, done = [], 0
    for start, end, new in splices:
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def printed(value: Any, before: str = "") -> str:
    """A value as block YAML, with the document markers of `before`."""
    begin = "---\n" if before.startswith("---") else ""
    end = "...\n" if before.rstrip().endswith("...") else ""  # the next document may begin with a directive
    return begin + "\n".join(Layout().lines(value)) + "\n" + end


class _New(msgspec.Struct, eq=False):
    """A value that has no text yet and is not shared."""

    value: Any


class _Entry(msgspec.Struct, eq=False):
    """One entry of a mapping, or item of a sequence (then `key` and `name` are empty)."""

    child: "_Child"
    old: Node | None = None  # None: there is no text of it yet
    key: Node | None = None
    name: str = ""


class _Branch(msgspec.Struct, eq=False):
    """A mapping or sequence that can be changed."""

    node: Node
    items: list[_Entry] = []  # of a sequence
    named: dict[str, _Entry] = {}  # of a mapping
    gone: list[_Entry] = []

    @property
    def entries(self) -> Collection[_Entry]:
        return self.named.values() if self.node.kind == "mapping" else self.items

    def find(self, name: str) -> _Entry | None:
        return self.named.get(name) if self.node.kind == "mapping" else self.items[int(name)]

    def add(self, name: str, value: _New) -> None:
        """Items go where `name` says; new entries after the others, except that metadata goes near the top."""
        if self.node.kind == "sequence":
            self.items.insert(len(self.items) if name == "-" else int(name), _Entry(value))
        elif name == "metadata":
            self.named = {name: _Entry(value, name=name), **self.named}
        else:
            self.named[name] = _Entry(value, name=name)

    def remove(self, name: str) -> None:
        entry = self.named.pop(name) if self.node.kind == "mapping" else self.items.pop(int(name))
        self.gone += [entry] if entry.old is not None else []


_Child = _Branch | _New | Node


def _thawed(original: Node, expand: bool) -> _Child:
    """A mutable copy of a node. With `expand` all below it too, without aliases and merge keys."""
    if original.kind == "alias" and expand:
        return _New(nodes.plain(original))
    if original.kind not in ("mapping", "sequence"):
        return original
    children = [_thawed(item, expand) for item in original.items] if expand else original.items
    if original.kind == "sequence":
        return _Branch(original, [_Entry(child, item) for child, item in zip(children, original.items, strict=True)])
    rows = zip(children, original.items, original.keys, original.names, strict=True)
    entries = [_Entry(child, item, key, name) for child, item, key, name in rows]
    named = {entry.name: entry for entry in entries}
    if len(named) < len(entries):
        raise CannotEditInPlace  # a key that is given twice
    merge = next((e for e in entries if expand and e.key and nodes.is_merge(e.name, e.key)), None)
    if merge is None:
        return _Branch(original, named=named)
    del named[merge.name]
    brought = {
        name: _Entry(_New(value), name=name) for name, value in nodes.plain(original).items() if name not in named
    }
    return _Branch(original, named={**named, **brought}, gone=[merge])


def _value(child: _Child) -> Any:
    if isinstance(child, _New):
        return child.value
    if isinstance(child, Node):
        return nodes.plain(child)
    if child.node.kind == "sequence":
        return [_value(entry.child) for entry in child.items]
    if any(e.key is not None and nodes.is_merge(e.name, e.key) for e in child.entries):
        raise CannotEditInPlace
    return {entry.name: _value(entry.child) for entry in child.entries}


class _Page:
    """One document's text while it is edited."""

    def __init__(self, document: Document, expand: bool) -> None:
        self._text = document.text
        self._lines = nodes.with_line_feeds(document.text)
        self._expand = expand
        self._newline = _newline(document.text)
        self._layout = Layout.of(document.root)
        self._root = document.root

    def splices(self, operations: Sequence[Change]) -> list[Splice]:
        root = _thawed(self._root, self._expand)
        if not isinstance(root, _Branch):
            raise CannotEditInPlace
        for operation in operations:
            self._apply(root, steps(operation["path"]), operation)
        splices = list(self._splices(root))
        if any(splice.start == len(self._text) for splice in splices):
            splices += self._unended(self._root)
        splices = [Splice(start, end, text.replace("\n", self._newline)) for start, end, text in splices]
        splices.sort(key=lambda splice: splice.start)
        if any(later.start < earlier.end for earlier, later in pairwise(splices)):
            raise CannotEditInPlace
        return splices

    def _unended(self, last: Node) -> list[Splice]:
        """A `|` scalar at the end of a file without a final newline has none either, and must not get one: `|-`."""
        while last.items:
            last = last.items[-1]
        header = self._lines[last.start : last.end].partition("\n")[0]
        block = last.end == len(self._text) and header[:1] in ("|", ">") and not set(header) & set("+-")
        return [Splice(last.start + 1, last.start + 1, "-")] if block else []

    def _apply(self, branch: _Branch, path: Sequence[str], operation: Change) -> None:
        """Walk to the parent of what the operation names, and change it there."""
        for depth, name in enumerate(path[:-1], 1):
            entry = branch.find(name)
            if entry is None or (isinstance(entry.child, Node) and entry.child.kind == "alias"):
                return  # aliased text: perhaps the anchor is changed in the same way
            if isinstance(entry.child, Node):
                entry.child = _thawed(entry.child, self._expand)
            if isinstance(entry.child, _New):
                below = {**copy.deepcopy(operation), "path": pointer(tuple(path[depth:]))}
                entry.child.value = jsonpatch.apply_patch(entry.child.value, [below], in_place=True)
                return
            if not isinstance(entry.child, _Branch):
                raise CannotEditInPlace
            branch = entry.child
        self._change(branch, path[-1], operation)

    def _change(self, branch: _Branch, name: str, operation: Change) -> None:
        kind = operation["op"]
        entry = None if kind == "add" and branch.node.kind == "sequence" else branch.find(name)
        if kind == "remove":
            if entry is None:
                raise CannotEditInPlace
            branch.remove(name)
            return
        value = _New(copy.deepcopy(operation["value"]))
        if entry is None:
            branch.add(name, value)
        else:
            entry.child = value

    def _splices(self, child: _Branch, label: int = -1) -> Iterator[Splice]:
        """The splices for a collection. `label`: where the line of its own key ends."""
        kept = [entry for entry in child.entries if entry.old is not None]
        if not kept and (child.gone or child.entries):
            yield self._whole(child)
        elif child.node.flow and child.gone:
            yield Splice(child.node.start, child.node.end, self._layout.flow(_value(child)))
        else:
            for entry in kept:
                yield from self._entry_splices(child, entry)
            yield from self._added_flow(child) if child.node.flow else self._added_block(child, label)
            for entry in child.gone:
                yield self._removed(child, entry)

    def _whole(self, branch: _Branch) -> Splice:
        """Replaces all of the old text."""
        value, old = _value(branch), branch.node
        if old.flow or not value:
            return Splice(old.start, old.end, self._layout.flow(value))
        return Splice(old.start, old.end, _indented(self._layout.lines(value), old.column))

    def _entry_splices(self, branch: _Branch, entry: _Entry) -> Iterator[Splice]:
        child, old = entry.child, entry.old
        assert old is not None
        if isinstance(child, _Branch) and child.node.flow and not child.node.items and child.entries:
            child = _New(_value(child))  # `annotations: {}` becomes a block where it can
        if isinstance(child, _New):
            yield from self._replaced(branch, entry, old, child.value)
        elif isinstance(child, _Branch):
            label = self._line_end(self._after_colon(entry.key)) if entry.key and not branch.node.flow else -1
            yield from self._splices(child, label)

    def _replaced(self, branch: _Branch, entry: _Entry, old: Node, value: Any) -> Iterator[Splice]:
        nested = isinstance(value, dict | list) and bool(value)
        if nested and not entry.key and not branch.node.flow:
            yield Splice(old.start, old.end, _indented(self._layout.lines(value), old.column))
            return
        if branch.node.flow or not nested:
            text = self._layout.flow(value) if nested or branch.node.flow else self._layout.scalar(value)
            yield Splice(old.start, old.end, text if old.end > old.start else " " + text)
            return
        if entry.key is None:
            raise CannotEditInPlace
        start, end = self._after_colon(entry.key), self._line_end(old.end)
        yield Splice(start, old.end, "")
        lines = self._layout.nested(value)
        yield Splice(end, end, "\n" + " " * branch.node.column + _indented(lines, branch.node.column))

    def _added_block(self, branch: _Branch, label: int) -> Iterator[Splice]:
        """New entries go after the line of the entry before them."""
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
                yield Splice(branch.node.start, branch.node.start, text + "\n" + " " * column)
                continue
            yield Splice(at, at, "\n" + " " * column + text)

    def _added_flow(self, branch: _Branch) -> Iterator[Splice]:
        """New entries go before the next old one, or after the last."""
        waiting: list[_Entry] = []
        last: Node | None = None
        for entry in branch.entries:
            if entry.old is None:
                waiting.append(entry)
                continue
            last, begin = entry.old, (entry.key or entry.old).start
            yield from (Splice(begin, begin, self._between(new, "") + ", ") for new in waiting)
            waiting = []
        if waiting and last is not None:
            yield self._appended(branch.node, last, waiting)

    def _between(self, entry: _Entry, margin: str) -> str:
        """A new entry in flow style; in multi-line JSON, with `margin` before each line but the first."""
        value = _value(entry.child)
        text = self._layout.pretty(value).replace("\n", margin) if margin else self._layout.flow(value)
        return self._layout.entry(entry.name, text) if entry.name else text

    def _appended(self, flow: Node, last: Node, new: Sequence[_Entry]) -> Splice:
        """After the last item in flow style; on separate lines if that one is."""
        rest = self._lines[last.end : flow.end - 1]
        if "#" in rest:
            raise CannotEditInPlace
        comma = rest.find(",") + 1
        at = last.end + comma
        separator = "" if comma else ","
        if "\n" not in rest:
            return Splice(at, at, f"{separator} " + ", ".join([self._between(entry, "") for entry in new]))
        begin = self._lines.rfind("\n", 0, last.start) + 1
        line = self._lines[begin : last.start]
        margin = "\n" + line[: len(line) - len(line.lstrip(" \t"))]
        texts = [margin + self._between(entry, margin if self._layout.json else "") for entry in new]
        return Splice(at, at, separator + ",".join(texts))

    def _removed(self, branch: _Branch, entry: _Entry) -> Splice:
        """Removes the lines of a key or an item, which must not share them."""
        old = entry.old
        assert old is not None
        begin = self._lines.rfind("\n", 0, entry.key.start if entry.key else old.start) + 1
        while not entry.key and self._lines[begin : begin + branch.node.column + 1].strip() != "-":
            if begin <= branch.node.start - branch.node.column:
                raise CannotEditInPlace
            begin = self._lines.rfind("\n", 0, begin - 1) + 1
        if self._lines[begin : begin + branch.node.column].strip():
            return self._moved_up(branch, entry)
        end = self._lines.find("\n", old.end)
        return Splice(begin, len(self._lines) if end < 0 else end + 1, "")

    def _moved_up(self, branch: _Branch, entry: _Entry) -> Splice:
        """Removes the first key, on the line of its dash: the next key moves up."""
        nearest = next((e.key for e in branch.entries if e.key is not None), None)
        if entry.key is None or entry.old is None or nearest is None or nearest.start < entry.old.end:
            raise CannotEditInPlace
        if self._lines[entry.old.end : nearest.start].strip():
            raise CannotEditInPlace
        return Splice(entry.key.start, nearest.start, "")

    def _after_colon(self, key: Node) -> int:
        match = _COLON.match(self._lines, key.end)
        if match is None:
            raise CannotEditInPlace
        return match.end()

    def _line_end(self, at: int) -> int:
        end = self._lines.find("\n", at)
        end = len(self._lines) if end < 0 else end
        return end - 1 if end > at and self._lines[end - 1] == "\r" else end


def _newline(text: str) -> str:
    """The line break that a text uses."""
    if "\n" in text:
        return "\r\n" if "\r\n" in text else "\n"
    return next((separator for separator in "\r\x85\u2028\u2029" if separator in text), "\n")


def _indented(lines: Sequence[str], column: int) -> str:
    """The lines indented, except for the first: its caller has already placed it."""
    return ("\n" + " " * column).join(lines)
