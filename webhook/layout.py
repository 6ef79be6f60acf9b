"""How values are written as YAML: in blocks or between brackets, as the rest of a document is. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from webhook import node
from webhook.node import Node

_PLAIN = re.compile(r"[A-Za-z0-9_./$][ -~]*")
_SIZE = re.compile(r"[1-9][0-9]*[A-DF-Za-df-z][A-Za-z0-9.]*")  # 2x2x2, 64Gi: no number to any reader


class Layout(msgspec.Struct, frozen=True):
    """How a document is written, so that what is added looks like the rest."""

    step: int = 2  # blanks by which a mapping inside a mapping is indented
    dash: int = 0  # blanks by which a list's dashes are
    json: bool = False

    @classmethod
    def of(cls, root: Node) -> "Layout":
        """The layout of the first nested mapping and list that the document has."""
        steps = [root.keys[0].column] if root.flow and root.keys else list(_columns(root, "mapping"))
        dashes = list(_columns(root, "sequence"))
        step = steps[0] if steps and steps[0] > 0 else 2
        return cls(step, dashes[0] if dashes else 0, json=root.flow)

    def lines(self, value: Any) -> list[str]:
        """A value that is not empty as block YAML."""
        if isinstance(value, dict) and value:
            return [line for name, item in value.items() for line in self._field(name, item)]
        if isinstance(value, list) and value:
            return [line for item in value for line in _hung("- ", self.lines(item), "  ")]
        return [self.flow(value) if isinstance(value, dict | list) else self.scalar(value)]

    def _field(self, name: str, item: Any) -> list[str]:
        label = self.scalar(name) + ":"
        if isinstance(item, dict | list) and item:
            return [label, *self.nested(item)]
        return [f"{label} {self.lines(item)[0]}"]

    def nested(self, value: Any) -> list[str]:
        """The lines below a key."""
        margin = " " * (self.dash if isinstance(value, list) else self.step)
        return _hung(margin, self.lines(value), margin)

    def flow(self, value: Any) -> str:
        """The same between brackets, on one line."""
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.flow_key(name)}: {self.flow(item)}" for name, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(self.flow, value)) + "]"
        return self.scalar(value, between="[]{},")

    def flow_key(self, name: str) -> str:
        """A key between brackets."""
        return self.scalar(name, between="[]{},")

    def scalar(self, value: Any, between: str = "") -> str:
        """Text without quotes where every reader of YAML agrees that it is text."""
        if not isinstance(value, str) or self.json or not is_plain(value) or any(c in value for c in between):
            text = json.dumps(value, ensure_ascii=False)
            return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
        return value


def is_plain(text: str) -> bool:
    """Whether text is itself without quotes: no word or number of YAML 1.1 or 1.2, and no sign of its syntax."""
    if not _PLAIN.fullmatch(text) or text.endswith((" ", ":")) or ": " in text or " #" in text:
        return False
    numeric = text[0].isdigit() and not _SIZE.fullmatch(text)
    return not numeric and isinstance(node.resolve(text), str)


def _hung(first: str, lines: Sequence[str], margin: str) -> list[str]:
    return [first + lines[0], *(margin + line for line in lines[1:])]


def _columns(root: Node, kind: str) -> Iterator[int]:
    """By how much each block collection of a kind stands to the right of the mapping that has it."""
    for item in root.items:
        if item.kind == kind and root.kind == "mapping" and not (item.flow or root.flow):
            yield item.column - root.column
        yield from _columns(item, kind)
