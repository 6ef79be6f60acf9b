"""YAML text as nodes that know their position in it. Pure: text in, nodes and plain values out.

Values are those that kubectl reads, which follow neither YAML 1.1 nor 1.2: `1e3` is a number, `yes` is true,
`12:30` and `2026-01-01` are text, a number with a leading 0 is octal, and one beyond 64 bits is a float or text.
Source: https://github.com/kubernetes-sigs/yaml/blob/742f5e6f/goyaml.v2/resolve.go
"""

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec
import yaml

from webhook.core.messages import quoted
from webhook.core.yaml.file_limits import ALIASED_TIMES, FEW_CHARACTERS, FEW_VALUES, LEVELS, OF_MANIFEST, Limits
from webhook.errors import BadYaml

_WORDS: dict[str, object] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INTEGER = re.compile(
    r"(?P<sign>[-+]?+)(?:0[xX](?P<hex>[0-9a-fA-F]++)|0[bB](?P<bin>[01]++)|0[oO]?+(?P<oct>[0-7]++)|(?P<dec>[0-9]++))"
)
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_FLOAT = re.compile(r"[-+]?+(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?+)(?:[eE][-+]?+[0-9]++)?+")
_EXACT = 2**53

_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"
_DASH = re.compile(r"(?:[&!][^ \t\r\n]*+|[ \t\r\n]++|#[^\n]*+)*+-")
"""The first dash of a list, after its anchor, its tag and comments."""
_LONE_RETURN = re.compile(r"\r(?!\n)")


class Node(msgspec.Struct, frozen=True, eq=False):
    """One value in the text. `end` is the end of its own text, without following comments and blank lines."""

    kind: Literal["scalar", "mapping", "sequence", "alias"]
    start: int
    end: int
    column: int  # of the first key, or of the first dash
    flow: bool = False  # in flow style
    value: Any = None  # of a scalar, or the Node that an alias means
    names: tuple[str, ...] = ()  # of a mapping, as JSON has them
    keys: tuple["Node", ...] = ()
    items: tuple["Node", ...] = ()  # values of a mapping, items of a sequence


class Document(msgspec.Struct, frozen=True):
    """One document of a stream: `text` is everything from its `---` to the next one's."""

    text: str
    start: int  # of `text` in the stream
    root: Node  # with indexes into `text`


def with_line_feeds(text: str) -> str:
    r"""The same text, as long as before, with `\n` for every line break that YAML has besides `\r\n`.

    They are a lone `\r`, U+0085, U+2028 and U+2029, to kubectl too.
    Source: https://yaml.org/spec/1.1/#id871136
    """
    for separator in "\x85\u2028\u2029":
        text = text.replace(separator, "\n")
    return _LONE_RETURN.sub("\n", text)


def documents(stream: str, limits: Limits = OF_MANIFEST) -> Iterator[Document]:
    """Every document of a stream, including empty ones, parsed lazily; raises `BadYaml`."""
    try:
        yield from _Composer(stream, limits).documents()
    except yaml.MarkedYAMLError as error:
        raise _marked(stream, error) from None
    except yaml.reader.ReaderError as error:
        # libyaml counts bytes here, and characters everywhere else.
        where = len(stream.encode()[: error.position].decode(errors="ignore"))
        raise BadYaml(where, f"a character that YAML does not allow: {error.reason}") from None
    except UnicodeEncodeError as error:
        raise BadYaml(error.start, "half a character (a surrogate)") from None


def _marked(text: str, error: yaml.MarkedYAMLError) -> BadYaml:
    mark = error.problem_mark or error.context_mark
    where = min(mark.index, len(text)) if mark else 0
    problem = error.problem or str(error).replace("\n", " ")
    if "nesting" in problem:  # libyaml has its own limit, which a line of brackets reaches before ours
        return _too_deep(where)
    if text[where : where + 1] == "\t":
        return BadYaml(where, "tab in indentation; use spaces")
    if "{{" in text[text.rfind("\n", 0, where) + 1 : where] + text[where:].partition("\n")[0]:
        return BadYaml(where, "a template, not a manifest: render it first, with helm template or the like")
    if error.context and error.context not in problem:
        problem = f"{problem} ({error.context})"
    return BadYaml(where, problem)


def _too_deep(where: int) -> BadYaml:
    return BadYaml(where, f"nested too deeply: more than {LEVELS} levels")


class _Anchored(NamedTuple):
    """What an anchor stands for, and its size."""

    node: Node
    values: int
    characters: int
    levels: int


class _Composer:
    """Builds nodes from a stream's events; their indexes are relative to their document."""

    def __init__(self, stream: str, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._lines = with_line_feeds(stream)
        self._events: Iterator[Any] = iter(yaml.parse(stream, Loader=yaml.CSafeLoader))
        self._begin()

    def _begin(self, base: int = 0) -> None:
        """A new document, whose text begins at `base`."""
        self._base = base
        self._anchors: dict[str, _Anchored] = {}
        self._values = self._characters = 0  # aliases count with their contents
        self._aliased_values = self._aliased_characters = 0
        self._level = 0
        self._deepest = 0  # of the levels since the last anchor began

    def documents(self) -> Iterator[Document]:
        root: Node | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    start = self._base + self._start(event)
                    yield Document(self._stream[self._base : start], self._base, root)
                    self._begin(start)
                root = self._node(next(self._events))
        text = self._stream[self._base :]
        yield Document(text, self._base, root or Node("scalar", len(text), len(text), 0))

    def _start(self, event: Any) -> int:
        index: int = event.start_mark.index - self._base
        return index

    def _end(self, event: Any) -> int:
        index: int = event.end_mark.index - self._base
        return index

    def _bad(self, event: Any, problem: str) -> BadYaml:
        return BadYaml(event.start_mark.index, problem)

    def _node(self, event: Any) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        return self._anchored(event) if event.anchor else self._made(event)

    def _made(self, event: Any) -> Node:
        self._count(event, 1)
        if isinstance(event, yaml.ScalarEvent):
            self._characters += len(event.value)
            return self._scalar(event)
        self._level += 1
        self._descend(event, self._level)
        node = self._mapping(event) if isinstance(event, yaml.MappingStartEvent) else self._sequence(event)
        self._level -= 1
        return node

    def _anchored(self, event: Any) -> Node:
        values, characters, deepest = self._values, self._characters, self._deepest
        self._deepest = self._level
        node = self._made(event)
        # Registered only now: an alias inside its own anchor would be an infinite value.
        self._anchors[event.anchor] = _Anchored(
            node, self._values - values, self._characters - characters, self._deepest - self._level
        )
        self._deepest = max(deepest, self._deepest)
        return node

    def _alias(self, event: Any) -> Node:
        found = self._anchors.get(event.anchor)
        if found is None:
            name = event.anchor[:64]
            raise self._bad(event, f"unknown alias *{name}: no &{name} before it")
        self._count_alias(event, found)
        self._count(event, 0)
        self._descend(event, self._level + found.levels)
        return Node("alias", self._start(event), self._end(event), event.start_mark.column, value=found.node)

    def _count(self, event: Any, values: int) -> None:
        self._values += values
        if self._values > self._limits.values:
            raise self._bad(event, f"more than {self._limits.values:,} keys and values")

    def _count_alias(self, event: Any, found: _Anchored) -> None:
        """What aliases expand to is bounded by the rest of the document: a few lines could mean gigabytes."""
        values = ALIASED_TIMES * (self._values - self._aliased_values) + FEW_VALUES
        characters = ALIASED_TIMES * (self._characters - self._aliased_characters) + FEW_CHARACTERS
        self._values += found.values + 1  # the alias itself
        self._characters += found.characters
        self._aliased_values += found.values
        self._aliased_characters += found.characters
        if self._aliased_values > (limit := min(values, self._limits.aliased_values)):
            raise self._bad(event, f"aliases stand for more than {limit:,} keys and values")
        if self._aliased_characters > (limit := min(characters, self._limits.aliased_characters)):
            raise self._bad(event, f"aliases stand for more than {limit >> 20} MiB of text")

    def _descend(self, event: Any, level: int) -> None:
        self._deepest = max(self._deepest, level)
        if level > LEVELS:
            raise _too_deep(event.start_mark.index)

    def _scalar(self, event: Any) -> Node:
        start, end = self._start(event), self._end(event)
        if event.style in ("|", ">"):
            end = self._block_end(start, end)
        value = self._resolved(event)
        return Node("scalar", start, end, event.start_mark.column, flow=bool(event.style), value=value)

    def _block_end(self, start: int, end: int) -> int:
        """A block scalar's event ends where the next token begins."""
        text = self._lines[self._base + start : self._base + end]
        header = text.partition("\n")[0].split("#")[0]
        if "+" in header:
            return start + len(text[: text.rfind("\n") + 1].removesuffix("\n").removesuffix("\r"))
        last = text.rfind("\n")
        if last >= 0 and not text[last:].strip(" \t\n"):
            text = text[:last]
        return start + len(text.rstrip(" \t\r\n"))

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
        raise self._bad(event, f"not a value of type !!{tag[:64]}")

    def _mapping(self, event: Any) -> Node:
        keys: list[Node] = []
        items: list[Node] = []
        names: list[str] = []
        while not isinstance(inner := next(self._events), yaml.MappingEndEvent):
            keys.append(self._node(inner))
            names.append(self._name(keys[-1]))
            items.append(self._node(next(self._events)))
        first = keys[0] if keys and not event.flow_style else None
        return Node(
            "mapping",
            first.start if first else self._start(event),
            max(items[-1].end, keys[-1].end) if first else self._end(inner),
            first.column if first else event.start_mark.column,
            bool(event.flow_style),
            names=tuple(names),
            keys=tuple(keys),
            items=tuple(items),
        )

    def _sequence(self, event: Any) -> Node:
        items: list[Node] = []
        while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(inner))
        start: int = event.start_mark.index
        dash = None if event.flow_style else _DASH.match(self._lines, start)
        start = dash.end() - 1 if dash else start
        return Node(
            "sequence",
            start - self._base,
            items[-1].end if dash and items else self._end(inner),
            start - (self._lines.rfind("\n", 0, start) + 1),
            bool(event.flow_style),
            items=tuple(items),
        )

    def _name(self, key: Node) -> str:
        """A key as in JSON."""
        value = key.value.value if key.kind == "alias" else key.value
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float) and key.kind == "scalar":
            return str(value).lower()
        start, end = self._base + key.start, self._base + key.end
        templated = "{{" in self._stream[max(start - 1, 0) : end]
        raise BadYaml(start, "a template, not a manifest" if templated else "a key that is not a scalar")


def resolve(text: str) -> Any:
    """The value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or (text[0] == "." and not text[1:2].isdigit()):
        return text
    plain = text.replace("_", "")
    integer = _integer(plain)
    if integer is not None:
        return integer
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        if abs(number) != float("inf"):
            return int(number) if number.is_integer() and abs(number) < _EXACT else number
    return text


def _integer(text: str) -> int | float | None:
    """A number of at most 64 bits, a float if it needs all of them; to kubectl a longer one is a float or a string."""
    match = _INTEGER.fullmatch(text)
    if match is None or match.lastgroup is None:
        return None
    digits = match[match.lastgroup].lstrip("0") or "0"
    if len(digits) > 64:
        return None
    number = int(match["sign"] + digits, _BASES[match.lastgroup])
    if not -(2**63) <= number < 2**64:
        return None
    return number if number < 2**63 else float(number)


def plain(node: Node) -> Any:
    """The node's value as in JSON, with merge keys and aliases resolved; raises `BadYaml`.

    Of duplicate keys the last counts, as in kubectl.
    """
    if node.kind == "alias":
        return plain(node.value)
    if node.kind == "sequence":
        return [plain(item) for item in node.items]
    if node.kind == "scalar":
        if isinstance(node.value, float) and not abs(node.value) < float("inf"):
            raise BadYaml(node.start, "a number that JSON cannot represent")
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
    """Raises `BadYaml` if a mapping has a duplicate key: an edit would be ambiguous."""
    seen: set[str] = set()
    for name, key in zip(node.names, node.keys, strict=True):
        if name in seen:
            raise BadYaml(key.start, f"duplicate key {quoted(name)}")
        seen.add(name)
    for item in node.items:
        check_keys(item)


def mappings(node: Node, name: str) -> Iterator[Node]:
    """Every mapping under a key of that name, at any depth."""
    for key, item in zip(node.names or ("",) * len(node.items), node.items, strict=True):
        if key == name and item.kind == "mapping":
            yield item
        yield from mappings(item, name)


def is_merge(name: str, key: Node) -> bool:
    """Whether an entry of a mapping is `<<`, YAML 1.1's merge key."""
    return name == _MERGE and not key.flow


def merge(item: Node) -> dict[str, Any]:
    """What `<<: item` adds; of several mappings the first wins."""
    target = item.value if item.kind == "alias" else item
    if target.kind == "mapping":
        return _object(target)
    if target.kind != "sequence":
        raise BadYaml(item.start, "<< merges mappings, and this is not one")
    merged: dict[str, Any] = {}
    for part in reversed(target.items):
        merged |= merge(part)
    return merged


def position(stream: str, where: int) -> tuple[int, int]:
    """Line and column, both from 1, by YAML's line breaks."""
    before = with_line_feeds(stream[:where])
    return before.count("\n") + 1, where - (before.rfind("\n") + 1) + 1
