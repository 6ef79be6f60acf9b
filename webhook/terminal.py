"""Where the command's words go: results to stdout, everything said about them to stderr, colours on terminals only.

rich obeys NO_COLOR, TERM=dumb and FORCE_COLOR by itself. Nothing here decides anything.
"""

import difflib
import sys
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.text import Text

WIDE = 160
"""Columns of a table that goes into a file or a pipe, where nobody's window counts."""


def out() -> Console:
    """The console for results."""
    return _console(stderr=False)


def err() -> Console:
    """The console for warnings, denials and errors."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = WIDE
    return console


def show(page: RenderableType) -> None:
    """A page on stdout. Without a window to fill, lines end where their text does."""
    console = out()
    if console.is_terminal:
        console.print(page)
        return
    with console.capture() as captured:
        console.print(page, soft_wrap=True)
    write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def write(text: str) -> None:
    """Text to stdout byte for byte, whatever the locale."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def say(label: str, style: str, text: str) -> None:
    """`warning: ...` on stderr, with only the label coloured; further lines are indented."""
    first, *more = text.splitlines() or [""]
    body = "\n".join([first, *("  " + line for line in more)])
    err().print(Text.assemble((f"{label}: ", style), body), soft_wrap=True)


def diff(before: str, after: str, name: str, lines: int = 3) -> list[str]:
    """A unified diff; `lines` is its context."""
    old, new = _lines(before), _lines(after)
    return [line.rstrip("\r\n") for line in difflib.unified_diff(old, new, name, f"{name} (injected)", "", "", lines)]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def coloured(lines: Iterable[str], margin: str = "") -> Text:
    """The lines of a diff."""
    text = Text()
    for line in lines:
        text.append(f"{margin}{line}\n", _style(line))
    return text


def _style(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
