"""Where the command's words go: results to stdout, everything said about them to stderr, colours on terminals only.

Words of others (a manifest's, a cluster's, a file's name) pass through here last, and command no terminal: a character
that is not printable becomes "?". Only YAML, JSON and diffs in a file or a pipe stay as they are, byte for byte.

rich obeys NO_COLOR, TERM=dumb and FORCE_COLOR by itself. Nothing here decides anything.
"""

import sys
from collections.abc import Iterable
from functools import cache

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment
from rich.text import Text

from webhook.errors import printable

WIDE = 160
"""Columns of a table that goes into a file or a pipe, where nobody's window counts."""


def out() -> Console:
    """The console for results."""
    return _console(stderr=False)


def err() -> Console:
    """The console for warnings, denials and errors."""
    return _console(stderr=True)


@cache
def _console(stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = WIDE
    console.push_render_hook(_Harmless())
    return console


class _Harmless(RenderHook):
    """Lets everything that a console prints pass through `_Printable`."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Printable(renderable) for renderable in renderables]


class _Printable:
    """What another renderable prints, without commands to the terminal but those that rich makes for its styles."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self._renderable, options):
            yield Segment(text if control else harmless(text), style, control)


def harmless(text: str) -> str:
    """The text with nothing that a terminal obeys but its line ends and tabs, which are shown as blanks."""
    if text.isprintable():
        return text
    return "\n".join(printable(line.removesuffix("\r").expandtabs()) for line in text.split("\n"))


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
    """Text to stdout: byte for byte whatever the locale, unless somebody looks at it on a terminal."""
    sys.stdout.flush()
    sys.stdout.buffer.write((harmless(text) if sys.stdout.isatty() else text).encode())
    sys.stdout.buffer.flush()


def say(label: str, style: str, text: str) -> None:
    """`warning: ...` on stderr, with only the label coloured; further lines are indented."""
    err().print(Text.assemble((f"{label}: ", style), text.replace("\n", "\n  ")), soft_wrap=True)


def diff(lines: Iterable[str]) -> None:
    """The lines of a diff, with their ends: with colours on a terminal, else so that `patch` can use it."""
    console = out()
    if not console.is_terminal:
        write("".join(lines))
        return
    console.print(coloured(lines), end="", soft_wrap=True)


def coloured(lines: Iterable[str], margin: str = "") -> Text:
    """The lines of a diff, with their ends."""
    text = Text()
    for line in lines:
        text.append(f"{margin}{line}", _style(line))
    return text


def _style(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
