"""YAML text as nodes that know where they stand in it. Pure: text in, nodes and plain values out.

Values are those that kubectl reads, which are neither YAML 1.1's nor 1.2's: `1e3` is a number, `yes` is true,
`12:30` and `2026-01-01` are text, and a number with a leading 0 is octal.
Source: https://github.com/kubernetes-sigs/yaml/blob/742f5e6f/goyaml.v2/resolve.go
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
import yaml

MOST_VALUES = 1_000_000
"""Values of one document, aliases counted as often as they are used: more is an attack or a mistake."""

_WORDS: dict[str, object] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INTEGER = re.compile(r"(?P<sign>[-+]?)(?P<base>0[xX](?=[0-9a-fA-F])|0[bB](?=[01])|0[oO]?(?=[0-7]))?(?P<digits>.+)")
_BASES = {"0x": 16, "0b": 2, "0o": 8, "0": 8, "": 10}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_EXACT = 2**53

_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"
_DASH = re.compile(r"(?:[&!]\S*[ \t]*)*(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*-")


class BadYaml(Exception):
    """The text cannot be read; `where` is an index into it, and the exception's text is one line."""

    def __init__(self, where: int, problem: str) -> None:
        self.where = where
        super().__init__(problem)


class Node(msgspec.Struct, frozen=True, eq=False):
    """One value in the text. `end` is where its own text ends: comments and blank lines after it are not its own."""

    kind: Literal["scalar", "mapping", "sequence", "alias"]
    start: int
    end: int
    column: int  # of the first key, or of the first dash
    flow: bool = False  # written with brackets
    value: Any = None  # of a scalar, or the Node that an alias means
    names: tuple[str, ...] = ()  # of a mapping, as JSON has them
    keys: tuple["Node", ...] = ()
    items: tuple["Node", ...] = ()  # values of a mapping, items of a sequence
    size: int = 1


class Document(msgspec.Struct, frozen=True):
    """One document of a stream: `text` has everything from its `---` to the next one's."""

    text: str
    start: int  # of `text` in the stream
    root: Node  # with indexes into `text`


def documents(stream: str) -> list[Document]:
    """Every document of a stream, empty ones too; raises `BadYaml`."""
    try:
        starts = [_start(e) for e in _events(stream) if isinstance(e, yaml.DocumentStartEvent)]
        bounds = zip([0, *starts[1:]], [*starts[1:], len(stream)], strict=True)
        return [Document(stream[a:b], a, _Composer(stream[a:b], a).root()) for a, b in bounds]
    except yaml.MarkedYAMLError as error:
        raise _marked(stream, error) from None
    except yaml.reader.ReaderError as error:
        raise BadYaml(
            min(error.position, len(stream)), f"a character that YAML does not allow: {error.reason}"
        ) from None
    except RecursionError:
        raise BadYaml(0, "nested too deeply") from None


def _events(text: str) -> Iterator[Any]:
    return iter(yaml.parse(text, Loader=yaml.CSafeLoader))


def _start(event: Any) -> int:
    index: int = event.start_mark.index
    return index


def _end(event: Any) -> int:
    index: int = event.end_mark.index
    return index


def _marked(text: str, error: yaml.MarkedYAMLError) -> BadYaml:
    mark = error.problem_mark or error.context_mark
    where = min(mark.index, len(text)) if mark else 0
    problem = error.problem or str(error).replace("\n", " ")
    if text[where : where + 1] == "\t":
        return BadYaml(where, "a tab; YAML indents with blanks")
    if "{{" in text[text.rfind("\n", 0, where) + 1 :].partition("\n")[0]:
        return BadYaml(where, "a template, not a manifest: render it first, with helm template or the like")
    if error.context and error.context not in problem:
        problem = f"{problem} ({error.context})"
    return BadYaml(where, problem)


class _Composer:
    """Makes nodes of one document's events. `base`: where its text begins in the stream, for errors."""

    def __init__(self, text: str, base: int) -> None:
        self._text = text
        self._base = base
        self._events = _events(text)
        self._anchors: dict[str, Node] = {}

    def root(self) -> Node:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                return self._node(next(self._events))
        return Node("scalar", len(self._text), len(self._text), 0)

    def _node(self, event: Any) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent):
            node = self._mapping(event)
        else:
            node = self._sequence(event)
        if event.anchor:
            # Known only now: an alias inside its own anchor would be a value without end.
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: Any) -> Node:
        start, end = _start(event), _end(event)
        target = self._anchors.get(event.anchor)
        if target is None:
            raise BadYaml(self._base + start, f"*{event.anchor} means nothing here: no &{event.anchor} before it")
        return Node("alias", start, end, event.start_mark.column, value=target, size=target.size)

    def _scalar(self, event: Any) -> Node:
        start, end = _start(event), _end(event)
        if event.style in ("|", ">"):
            end = self._block_end(start, end)
        value = self._resolved(event)
        return Node("scalar", start, end, event.start_mark.column, flow=bool(event.style), value=value)

    def _block_end(self, start: int, end: int) -> int:
        """A block scalar's event ends where the next token begins."""
        header = self._text[start : self._text.find("\n", start)].split("#")[0]
        text = self._text[start:end]
        if "+" in header:
            return start + len(text[: text.rfind("\n") + 1].removesuffix("\n").removesuffix("\r"))
        lines = text.split("\n")
        if len(lines) > 1 and not lines[-1].strip():
            lines.pop()
        return start + len("\n".join(lines).rstrip())

    def _resolved(self, event: Any) -> Any:
        tag = (event.tag or "").removeprefix(_TAG)
        if tag in ("", "!") and event.implicit[0]:
            return resolve(event.value)
        if not event.tag or tag in ("str", "!") or not event.tag.startswith(_TAG):
            return event.value
        value = resolve(event.value)
        kinds = {"int": int, "float": int | float, "bool": bool, "null": type(None)}
        if tag in kinds and isinstance(value, kinds[tag]) and (tag == "bool") == isinstance(value, bool):
            return value
        raise BadYaml(self._base + _start(event), f"not a value of the kind !!{tag}")

    def _mapping(self, event: Any) -> Node:
        keys, items = [], []
        while not isinstance(inner := next(self._events), yaml.MappingEndEvent):
            keys.append(self._node(inner))
            items.append(self._node(next(self._events)))
        names = tuple(self._name(key) for key in keys)
        first = keys[0] if keys and not event.flow_style else None
        return Node(
            "mapping",
            first.start if first else _start(event),
            max(items[-1].end, keys[-1].end) if first else _end(inner),
            first.column if first else event.start_mark.column,
            bool(event.flow_style),
            names=names,
            keys=tuple(keys),
            items=tuple(items),
            size=self._size(event, items),
        )

    def _sequence(self, event: Any) -> Node:
        items = []
        while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(inner))
        start = _start(event)
        dash = None if event.flow_style else _DASH.match(self._text, start)
        start = dash.end() - 1 if dash else start
        return Node(
            "sequence",
            start,
            items[-1].end if dash and items else _end(inner),
            start - (self._text.rfind("\n", 0, start) + 1),
            bool(event.flow_style),
            items=tuple(items),
            size=self._size(event, items),
        )

    def _size(self, event: Any, items: Sequence[Node]) -> int:
        size = 1 + sum(item.size for item in items)
        if size > MOST_VALUES:
            raise BadYaml(self._base + _start(event), f"more than {MOST_VALUES:,} values, aliases included")
        return size

    def _name(self, key: Node) -> str:
        """A key as JSON has it."""
        value = key.value.value if key.kind == "alias" else key.value
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float) and key.kind == "scalar":
            return str(value).lower()
        what = (
            "a template, not a manifest" if "{{" in self._text[key.start - 1 : key.end] else "a key that is not a word"
        )
        raise BadYaml(self._base + key.start, what)


def resolve(text: str) -> Any:
    """The value of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or (text[0] == "." and not text[1:2].isdigit()):
        return text
    plain = text.replace("_", "")
    integer = _INTEGER.fullmatch(plain)
    if integer:
        try:
            return int(integer["sign"] + integer["digits"], _BASES[(integer["base"] or "").lower()])
        except ValueError:
            pass
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        if abs(number) != float("inf"):
            return int(number) if number.is_integer() and abs(number) < _EXACT else number
    return text


def plain(node: Node) -> Any:
    """The node's value as JSON has it, merge keys and aliases resolved; raises `BadYaml`.

    Of a key that is given twice the last counts, as kubectl has it.
    """
    if node.kind == "alias":
        return plain(node.value)
    if node.kind == "sequence":
        return [plain(item) for item in node.items]
    if node.kind == "scalar":
        if isinstance(node.value, float) and not abs(node.value) < float("inf"):
            raise BadYaml(node.start, "a number that JSON does not have")
        return node.value
    return _object(node)


def _object(node: Node) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, key, item in zip(node.names, node.keys, node.items, strict=True):
        if is_merge(name, key):
            merged |= merge(item)
        else:
            own[name] = plain(item)
    return {**merged, **own} if merged else own


def check_keys(node: Node) -> None:
    """Raises `BadYaml` where a mapping has a key twice: an edit could not say which of them it means."""
    seen: set[str] = set()
    for name, key in zip(node.names, node.keys, strict=True):
        if name in seen:
            raise BadYaml(key.start, f'the key "{name}" is given twice')
        seen.add(name)
    for item in node.items:
        check_keys(item)


def mappings(node: Node, name: str) -> Iterator[Node]:
    """Every mapping that stands under a key of that name, at any depth."""
    for key, item in zip(node.names or ("",) * len(node.items), node.items, strict=True):
        if key == name and item.kind == "mapping":
            yield item
        yield from mappings(item, name)


def is_merge(name: str, key: Node) -> bool:
    """Whether an entry of a mapping is `<<`, YAML 1.1's way to take over another mapping's entries."""
    return name == _MERGE and not key.flow


def merge(item: Node) -> dict[str, Any]:
    """What `<<: item` brings; of several mappings the first wins."""
    target = item.value if item.kind == "alias" else item
    if target.kind == "mapping":
        return _object(target)
    if target.kind != "sequence":
        raise BadYaml(item.start, "<< takes over mappings, and this is none")
    merged: dict[str, Any] = {}
    for part in reversed(target.items):
        merged |= merge(part)
    return merged


def position(stream: str, where: int) -> tuple[int, int]:
    """Line and column, both from 1."""
    before = stream[:where]
    return before.count("\n") + 1, where - (before.rfind("\n") + 1) + 1
