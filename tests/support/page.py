"""Pages for people: README.md, docs/, the chart's README. What each fenced block promises, and who keeps the promise.

The word after the fence's language says what a test does with the block:

    ```yaml             tests/test_docs.py injects it without a denial; without a `kind` it is read as a site config
    ```yaml (values)    values of the chart: helm renders it with them
    ```yaml (stored)    parts of what becomes of the `yaml` block before it: every one is found there
    ```yaml (argo)      a part of another program's file: only read as YAML
    ```diff             made by docs/document.py, which injects it
    ```console          run by tests/test_docs.py, in the root of the checkout
    ```console (cluster)   run by tests/cluster/test_docs.py against a real API server, in the page's order
    ```console (cloud)     not run: it needs a cloud or a container engine

In a console block, `$ ` begins a command. What follows it is all that it prints, where anything follows.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.checkout import ROOT

PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "charts/accel-injector/README.md",
    *ROOT.glob("docs/*.md"),
)
KNOWN = {
    *("yaml", "yaml (values)", "yaml (stored)", "yaml (argo)", "diff"),
    *("console", "console (cluster)", "console (cloud)"),
}
_BLOCK = re.compile(r"^```(\S.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_COMMAND = re.compile(r"((?:.*\\\n)*.*)\n((?:.*\n)*)")  # a backslash at its end continues a line
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """What stands between two fences."""

    page: Path
    line: int
    info: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class Command(NamedTuple):
    """A line after `$ `, and what stands below it."""

    text: str
    printed: str


def blocks(*infos: str) -> list[Block]:
    """The blocks of all pages with one of these after their fence; without one, all."""
    return [block for path in PAGES for block in of_page(path) if not infos or block.info in infos]


def of_page(path: Path) -> Iterator[Block]:
    text = path.read_text()
    for found in _BLOCK.finditer(text):
        yield Block(path, text.count("\n", 0, found.start()) + 1, found[1], found[2])


def commands(block: Block) -> list[Command]:
    """The commands of a console block."""
    _, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    return [Command(*_COMMAND.fullmatch(part).groups()) for part in parts]  # type: ignore[union-attr]


def prose(path: Path) -> str:
    """A page without its blocks."""
    return _BLOCK.sub("", path.read_text())


def links(path: Path) -> list[str]:
    """What the page points to."""
    return _LINK.findall(prose(path))


def anchors(path: Path) -> set[str]:
    """What can stand after a `#` in a link to the page, as GitHub makes it of headings."""
    headings = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose(path)))
    return {heading.replace(" ", "-") for heading in headings}


def environment(**more: str) -> dict[str, str]:
    """For a page's commands: `accel` is found, and the user's own cluster and width of terminal are not."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "ACCEL", "HELM", "COLUMNS", "MAKE"))}
    return {**ours, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **more}
