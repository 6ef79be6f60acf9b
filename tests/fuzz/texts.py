"""YAML files gone wrong: changed line by line and sign by sign, the same ones for the same seed."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.yaml_text import Writer

SIGNS = (
    "&a ", "*a", "*a ", "&b\n", "!", "!!", "!!str ", "!!int ", "!x ", "!<y> ", "- ", "-", "? ", ": ", ":", "{", "}",
    "[", "]", ",", " |\n", " |+\n", " >-\n", "|2-", "'", '"', '\\"', "\\x41", "\\u20", "#", " # c", "---\n", "--- ",
    "...\n", "%YAML 1.1\n", "%TAG ! x\n", "<<: *a\n", "<<: ", "\t", " ", "  ", "\n", "\n\n", "\r", "\r\n", "\x85",
    "\u2028", "\u2029", "\ufeff", "\x00", "\x1b", "\x7f", "\u202e", "\U0001f600", "\U000e0001", "é", "~", "null", "yes",
    "0x", "0o7", "1e999", "-.inf", "1_0", "12:30", "2026-01-01", "{{ .Values.a }}", "`", "@", "%", "=",
)  # fmt: skip
BREAKS = ("\r\n", "\r", "\x85", "\u2028", "\u2029")
HEAVY = (
    lambda n: '"' + "x" * n + '"', lambda n: "x " * n, lambda n: "1" * n, lambda n: "0x" + "f" * n, lambda n: "[" * n,
    lambda n: "[" * min(n, 150) + "]" * min(n, 150), lambda n: "[" + "a, " * n + "]", lambda n: "!" + "&" * n,
    lambda n: "{" + ", ".join(f"k{i}: v" for i in range(n)) + "}", lambda n: "# " + "c" * n, lambda n: "'" * n,
    lambda n: "|\n" + "      x\n" * n, lambda n: " " * n, lambda n: "&a " + "x" * n, lambda n: "[" + "*a, " * n + "]",
    lambda n: '"' + "k" * n + '": 1', lambda n: "- " * n, lambda n: "? " * n, lambda n: "1" + ":1" * n,
)  # fmt: skip
"""Words of a size."""


def changed(text: str, chance: random.Random) -> str:
    """One to three changes."""
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3))):
        text = chance.choice(CHANGES)(text, chance)
    return text


def written(value: Any, chance: random.Random) -> str:
    """A mapping in one of many styles."""
    if chance.random() < 0.15:
        return json.dumps(value, indent=chance.choice((None, 2, 4)), ensure_ascii=chance.random() < 0.5) + "\n"
    return Writer(chance).text(value)


def _lines(text: str) -> list[str]:
    return text.split("\n")


def _at(lines: Sequence[str], chance: random.Random) -> int:
    return chance.randrange(len(lines))


def _sign(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(SIGNS) + text[at + chance.choice((0, 0, 0, 1)) :]


def _sign_of_a_line(text: str, chance: random.Random) -> str:
    """Where signs mean the most: before a line, before its value, behind it."""
    lines = _lines(text)
    at = _at(lines, chance)
    line = lines[at]
    column = chance.choice((0, len(line) - len(line.lstrip()), line.find(":") + 1, line.find(": ") + 2, len(line)))
    lines[at] = line[:column] + chance.choice(SIGNS) + line[column:]
    return "\n".join(lines)


def _cut(text: str, chance: random.Random) -> str:
    at, to = sorted(chance.randrange(len(text) + 1) for _ in range(2))
    return text[:at] if chance.random() < 0.3 else text[:at] + text[min(to, at + 40) :]


def _line(text: str, chance: random.Random) -> str:
    """A line is gone, is there twice, or stands elsewhere."""
    lines = _lines(text)
    line = lines.pop(_at(lines, chance))
    for _ in range(chance.randrange(3)):
        lines.insert(chance.randrange(len(lines) + 1), line)
    return "\n".join(lines)


def _indentation(text: str, chance: random.Random) -> str:
    lines = _lines(text)
    at = _at(lines, chance)
    for index in range(at, min(at + chance.choice((1, 1, 3, 10)), len(lines))):
        lines[index] = lines[index].removeprefix("  ") if chance.random() < 0.5 else "  " + lines[index]
    return "\n".join(lines)


def _all_breaks(text: str, chance: random.Random) -> str:
    return text.replace("\n", chance.choice(BREAKS))


def _some_breaks(text: str, chance: random.Random) -> str:
    return "".join(c if c != "\n" or chance.random() < 0.7 else chance.choice(BREAKS) for c in text)


def _comments(text: str, chance: random.Random) -> str:
    lines = _lines(text)
    for _ in range(chance.randint(1, 5)):
        at = _at(lines, chance)
        if chance.random() < 0.5:
            lines[at] += " # c: [ 'x"
        else:
            lines.insert(at, " " * chance.randrange(8) + "# c: [ 'x" + chance.choice(("", "\r", "\u2028b: 1")))
    return "\n".join(lines)


def _anchor(text: str, chance: random.Random) -> str:
    """A value has a name, and stands in another's place too."""
    lines = _lines(text)
    places = [index for index, line in enumerate(lines) if ":" in line and not line.lstrip().startswith("#")]
    if len(places) < 2:
        return text
    first, second = sorted(chance.sample(places, 2))
    key, _, value = lines[first].partition(":")
    lines[first] = f"{key}: &a{value}"
    other = lines[second].partition(":")[0]
    margin = " " * (len(other) - len(other.lstrip(" -")))
    lines[second] = chance.choice(
        (f"{other}: *a", f"{other}:\n{margin}  <<: *a", f"{margin}<<: [*a, *a]", f"{margin}*a : 1")
    )
    return "\n".join(lines)


def _quotes(text: str, chance: random.Random) -> str:
    """A value between quotes, on several lines, or as a block."""
    lines = _lines(text)
    at = _at(lines, chance)
    key, colon, value = lines[at].partition(": ")
    margin = " " * (len(key) - len(key.lstrip(" ")))
    shapes = (
        f'"{value}"',
        f"'{value}'",
        f"|\n{margin}  {value}",
        f">+\n{margin}  {value}\n\n",
        f'"{value}\\\n{margin}  x"',
    )
    lines[at] = key + colon + chance.choice(shapes)
    return "\n".join(lines)


def _heavy(text: str, chance: random.Random) -> str:
    """A value, a key or a line of some size."""
    lines = _lines(text)
    at = _at(lines, chance)
    word = chance.choice(HEAVY)(int(10 ** chance.uniform(0, 3.7)))
    key, colon, _ = lines[at].partition(": ")
    lines[at] = key + colon + word if chance.random() < 0.7 else word
    return "\n".join(lines)


def _repeated(text: str, chance: random.Random) -> str:
    """Some lines many times: items, keys, comments, blank lines."""
    lines = _lines(text)
    at = _at(lines, chance)
    to = min(at + chance.choice((1, 1, 2, 5, 12)), len(lines))
    return "\n".join([*lines[:to], *lines[at:to] * int(10 ** chance.uniform(0, 1.6)), *lines[to:]])


def _documents(text: str, chance: random.Random) -> str:
    """Several documents, or a List."""
    if chance.random() < 0.5:
        return chance.choice(("---\n", "...\n---\n", "--- # c\n", "\n---\n\n", "---\r\n")).join(
            [text] * chance.randint(1, 3)
        )
    item = text.removeprefix("---\n").replace("\n", "\n  ")
    return "apiVersion: v1\nkind: List\nitems:\n" + f"- {item}\n" * chance.randint(1, 3)


def _mark(text: str, chance: random.Random) -> str:
    """A byte order mark, markers and directives at the beginning; no newline at the end."""
    start = chance.choice(("\ufeff", "---\n", "%YAML 1.1\n---\n", "# c\n", "\n\n", "--- !!map\n", "", "\ufeff# c\r\n"))
    return start + (text.rstrip("\n") if chance.random() < 0.5 else text)


CHANGES: tuple[Callable[[str, random.Random], str], ...] = (
    _sign, _sign_of_a_line, _cut, _line, _indentation, _all_breaks, _some_breaks, _comments, _comments, _anchor,
    _anchor, _anchor, _quotes, _quotes, _heavy, _repeated, _documents, _documents, _mark,
)  # fmt: skip
