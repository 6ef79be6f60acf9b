"""How values are written as YAML: in block or flow style, like the rest of the document. Pure."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from webhook.core.yaml import nodes
from webhook.core.yaml.nodes import Node

STEP = 8
"""Maximum indentation step; a document with a larger one is not imitated, or additions would be mostly spaces."""

MARGIN = 40
"""Maximum indentation; anything nested deeper is written in flow style."""

KEY = 1000
"""Characters of a key that a YAML parser accepts without a `?` indicator; the limit is 1024.

Source: https://yaml.org/spec/1.1/#id934537
"""

_PLAIN = re.compile(r"[A-Za-z0-9_./$][ -~]*+")
_SIZE = re.compile(r"[1-9][0-9]*+[A-DF-Za-df-z][A-Za-z0-9.]*+")  # 2x2x2, 64Gi: not a number to any parser


class Layout(msgspec.Struct, frozen=True):
    """How a document is laid out, so that additions look like the rest."""

    step: int = 2  # spaces by which a mapping inside a mapping is indented
    dash: int = 0  # spaces by which a list's dashes are
    json: bool = False

    @classmethod
    def of(cls, root: Node) -> "Layout":
        """The layout of the first nested mapping and list that the document has."""
        step = root.keys[0].column if root.flow and root.keys else next(_columns(root, "mapping"), 2)
        dash = next(_columns(root, "sequence"), 0)
        return cls(step if 0 < step <= STEP else 2, dash if 0 <= dash <= STEP else 0, json=root.flow)

    def lines(self, value: Any) -> list[str]:
        """A value as block YAML."""
        lines: list[str] = []
        self._block(value, "", "", lines)
        return lines

    def nested(self, value: Any) -> list[str]:
        """The lines below a key."""
        margin = self._margin(value)
        lines: list[str] = []
        self._block(value, margin, margin, lines)
        return lines

    def _margin(self, value: Any) -> str:
        return " " * (self.dash if isinstance(value, list) else self.step)

    def _block(self, value: Any, first: str, margin: str, lines: list[str]) -> None:
        """Appends a value's lines, with `first` before the first of them and `margin` before the others."""
        if not isinstance(value, dict | list):
            lines.append(first + self.scalar(value))
        elif not value or len(margin) > MARGIN or any(len(name) > KEY for name in value if isinstance(value, dict)):
            lines.append(first + self.flow(value))
        elif isinstance(value, list):
            for item in value:
                self._block(item, first + "- ", margin + "  ", lines)
                first = margin
        else:
            for name, item in value.items():
                label = f"{first}{self.scalar(name)}:"
                first = margin
                if isinstance(item, dict | list) and item:
                    lines.append(label)
                    below = margin + self._margin(item)
                    self._block(item, below, below, lines)
                else:
                    self._block(item, label + " ", margin, lines)

    def flow(self, value: Any) -> str:
        """The same in flow style, on one line."""
        if isinstance(value, dict):
            return "{" + ", ".join([self.entry(name, self.flow(item)) for name, item in value.items()]) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(self.flow, value)) + "]"
        return self.scalar(value, between="[]{},")

    def entry(self, name: str, text: str) -> str:
        """An entry in flow style, with the text of its value."""
        key = self.scalar(name, between="[]{},")
        return f"? {key} : {text}" if len(key) > KEY else f"{key}: {text}"

    def pretty(self, value: Any) -> str:
        """As multi-line JSON."""
        lines = json.dumps(value, indent=self.step, ensure_ascii=False).split("\n")
        return "\n".join(map(self._printable, lines))

    def scalar(self, value: Any, between: str = "") -> str:
        """Text, without quotes if every YAML parser agrees that it is a string."""
        if isinstance(value, str) and not self.json and is_plain(value) and not any(c in value for c in between):
            return value
        return self._printable(json.dumps(value, ensure_ascii=False))

    def _printable(self, text: str) -> str:
        return text if text.isprintable() else "".join([c if c.isprintable() else self._escaped(c) for c in text])

    def _escaped(self, character: str) -> str:
        """YAML and JSON have no common escape beyond 16 bits."""
        code = ord(character)
        return json.dumps(character)[1:-1] if self.json or code < 2**16 else f"\\U{code:08x}"


JSON = Layout(json=True)
"""JSON indented by two spaces, without anything that could control a terminal."""


def is_plain(text: str) -> bool:
    """Whether text needs no quotes: it is no keyword or number in YAML 1.1 or 1.2, and has no syntax characters."""
    if not _PLAIN.fullmatch(text) or text.endswith((" ", ":")) or ": " in text or " #" in text:
        return False
    numeric = text[0].isdigit() and not _SIZE.fullmatch(text)
    return not numeric and isinstance(nodes.resolve(text), str)


def _columns(root: Node, kind: str) -> Iterator[int]:
    """By how much each block collection of a kind is indented relative to its parent mapping."""
    for item in root.items:
        if item.kind == kind and root.kind == "mapping" and not (item.flow or root.flow):
            yield item.column - root.column
        yield from _columns(item, kind)
