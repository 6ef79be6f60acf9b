"""Output of the commands: results to stdout, messages about them to stderr, colours only on terminals.

Untrusted text (of a manifest, a cluster, a file name) passes through here last, and cannot control the terminal: a
non-printable character becomes "?". Only YAML, JSON and diffs to a file or a pipe stay unchanged, byte for byte.

rich honours NO_COLOR, TERM=dumb and FORCE_COLOR by itself. Nothing here decides anything.
"""

import sys
from collections.abc import Iterable
from functools import cache

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment
from rich.text import Text

from webhook.errors import printable

WIDE = 160
"""Columns of a table that goes to a file or a pipe."""


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
    """Passes everything that a console prints through `_Printable`."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Printable(renderable) for renderable in renderables]


class _Printable:
    """The output of another renderable, without control sequences except for those of rich's styles."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self._renderable, options):
            yield Segment(text if control else harmless(text), style, control)


def harmless(text: str) -> str:
    """The text without control characters, except for line breaks; tabs become spaces."""
    if text.isprintable():
        return text
    return "\n".join(printable(line.removesuffix("\r").expandtabs()) for line in text.split("\n"))


def show(page: RenderableType) -> None:
    """Print a page to stdout. If that is not a terminal, lines are not padded."""
    console = out()
    if console.is_terminal:
        console.print(page)
        return
    with console.capture() as captured:
        console.print(page, soft_wrap=True)
    write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def write(text: str) -> None:
    """Write text to stdout: byte for byte whatever the locale, unless it is a terminal."""
    sys.stdout.flush()
    sys.stdout.buffer.write((harmless(text) if sys.stdout.isatty() else text).encode())
    sys.stdout.buffer.flush()


def say(label: str, style: str, text: str) -> None:
    """`warning: ...` on stderr, with only the label coloured; further lines are indented."""
    err().print(Text.assemble((f"{label}: ", style), text.replace("\n", "\n  ")), soft_wrap=True)


def diff(lines: Iterable[str]) -> None:
    """Print the lines of a diff, with their line breaks: coloured on a terminal, else usable by `patch`."""
    console = out()
    if not console.is_terminal:
        write("".join(lines))
        return
    console.print(coloured(lines), end="", soft_wrap=True)


def coloured(lines: Iterable[str], margin: str = "") -> Text:
    """The lines of a diff, with their line breaks, as coloured text."""
    text = Text()
    for line in lines:
        text.append(f"{margin}{line}", _style(line))
    return text


def _style(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
