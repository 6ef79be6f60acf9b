"""Random YAML in the styles that people use, for tests of edits: block and flow, quotes, comments, indentation."""

import json
import random
from typing import Any

from webhook.manifest.style import is_plain

WORDS = [
    "a",
    "b c",
    "x: y",
    "# no",
    "yes",
    "1",
    "",
    'q"uo',
    "it's",
    "two\nlines\n",
    "two\nlines",
    "2x2",
    "é😀",
    "-x",
    "null",
]
OTHERS = [1, 2.5, True, None]
KEYS = ["a", "b", "name", "metadata", "spec", "k/e.y", "~x"]


def value(random: random.Random, depth: int = 0) -> Any:
    """A random JSON value; at depth 0, a mapping that is not empty."""
    kind = random.random()
    if depth and (depth > 4 or kind < 0.35):
        return random.choice([*WORDS, *OTHERS])
    if not depth or kind < 0.75:
        names = [f"{random.choice(KEYS)}{random.randint(0, 3)}" for _ in range(random.randint(not depth, 4))]
        return {name: value(random, depth + 1) for name in names}
    return [value(random, depth + 1) for _ in range(random.randint(0, 3))]


def operations(random: random.Random, root: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Random additions to `root`, like those of injection: new keys and items."""
    places = [(path, node) for path, node in _places(root, "") if isinstance(node, dict | list)]
    found = []
    for index in range(number):
        path, node = random.choice(places)
        new = f"new~1{index}" if isinstance(node, dict) else random.choice(["-", "0"])
        found.append({"op": "add", "path": f"{path}/{new}", "value": value(random, 2)})
        places = [(p, n) for p, n in places if not (new == "0" and p.startswith(f"{path}/"))]
    return found


def _places(node: Any, path: str) -> Any:
    yield path, node
    rows = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for step, item in rows:
        escaped = str(step).replace("~", "~0").replace("/", "~1")
        yield from _places(item, f"{path}/{escaped}")


class Writer:
    """Writes values in one random style, with numbered comments."""

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.step = random.choice([2, 2, 4])
        self.dash = random.choice([0, 2])
        self.newline = random.choice(["\n", "\n", "\r\n"])
        self.comments: list[str] = []

    def text(self, root: dict[str, Any]) -> str:
        lines = [*(["---"] if self.random.random() < 0.3 else []), *self.block(root, 0, self.step, self.dash)]
        return self.newline.join([*lines, *self.random.choice([[""], ["", "", "# the end", ""]])])

    def block(self, node: Any, column: int, step: int, dash: int) -> list[str]:
        lines: list[str] = []
        if isinstance(node, dict):
            for name, item in node.items():
                lines += [*self.above(column), *self.field(name, item, column, step, dash)]
            return lines
        for item in node:
            lines += [*self.above(column), *self.item(item, column)]
        return lines

    def field(self, name: str, item: Any, column: int, step: int, dash: int) -> list[str]:
        label = " " * column + self.key(name) + ":"
        if isinstance(item, dict | list) and item and self.random.random() < 0.8:
            inner = column + (dash if isinstance(item, list) else step)
            return [label + self.beside(), *self.block(item, inner, step, dash)]
        if item is None and self.random.random() < 0.5:
            return [label + self.beside()]
        if isinstance(item, str) and "\n" in item and self.random.random() < 0.7:
            body = item.removesuffix("\n").split("\n")
            header = " |" if item.endswith("\n") else " |-"
            return [label + header, *(" " * (column + step) + line for line in body)]
        return [f"{label} {self.flow(item)}{self.beside()}"]

    def item(self, item: Any, column: int) -> list[str]:
        if not isinstance(item, dict | list) or not item or self.random.random() < 0.2:
            return [" " * column + "- " + self.flow(item) + self.beside()]
        lines = self.block(item, column + 2, 2, 0)
        first = next(i for i, line in enumerate(lines) if line.strip() and not line.strip().startswith("#"))
        above = [line[2:] for line in lines[:first]]
        return [*above, " " * column + "- " + lines[first][column + 2 :], *lines[first + 1 :]]

    def above(self, column: int) -> list[str]:
        """Nothing, a blank line, or a comment on its own line."""
        chance = self.random.random()
        if chance < 0.06:
            return [""]
        return [" " * column + self.comment()] if chance < 0.12 else []

    def beside(self) -> str:
        return " " + self.comment() if self.random.random() < 0.15 else ""

    def comment(self) -> str:
        self.comments.append(f"# comment {len(self.comments)}: - x")
        return self.comments[-1]

    def key(self, name: str) -> str:
        return name if self.random.random() < 0.8 else json.dumps(name)

    def flow(self, node: Any) -> str:
        gap = self.random.choice(["", " "])
        if isinstance(node, dict):
            return (
                "{" + gap + ", ".join(f"{self.key(name)}: {self.flow(item)}" for name, item in node.items()) + gap + "}"
            )
        if isinstance(node, list):
            return "[" + ", ".join(map(self.flow, node)) + self.random.choice(["", ","] if node else [""]) + "]"
        if isinstance(node, str) and is_plain(node) and self.random.random() < 0.6:
            return node
        if isinstance(node, str) and "\n" not in node and self.random.random() < 0.4:
            return "'" + node.replace("'", "''") + "'"
        return self.random.choice(["null", "~"]) if node is None else json.dumps(node, ensure_ascii=False)
