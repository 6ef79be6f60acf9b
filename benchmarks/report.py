"""The output of a run: tables on the terminal, and a JSON file."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.sample import Figure, short
from benchmarks.servers import TITLES
from benchmarks.targets import TARGETS, Measured

console = Console(highlight=False)
if not console.is_terminal:
    console.width = 120  # a file or a pipe has no width of its own
NOISY = "~ other processes used the machine meanwhile: trust ratios, not absolute numbers, and measure again"


def say(text: str) -> None:
    console.print(text)


def rows(title: str, columns: Sequence[str], lines: Mapping[str, Sequence[Figure | str]]) -> None:
    """Print one table. Names of servers are shown as their titles."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    for name, cells in lines.items():
        texts = [cell.text() if isinstance(cell, Figure) else cell for cell in cells]
        table.add_row(TITLES.get(name, name), *texts)
    console.print(table)


def verdicts(measured: Mapping[str, Measured]) -> None:
    """Print every target that this run has a value for."""
    table = Table(title="Targets", title_justify="left", title_style="bold")
    for column, justify in (("", "left"), ("target", "right"), ("measured", "right"), ("", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for target in TARGETS:
        if target.key not in measured:
            continue
        found = measured[target.key]
        verdict = target.verdict(found.value)
        style = {"pass": "green", "falls short": "red"}.get(verdict, "")
        mark = " ~" if found.noisy else ""
        table.add_row(target.what, target.text, f"{short(found.value)}{target.unit}{mark}", verdict, style=style)
    console.print(table)
    if any(found.noisy for found in measured.values()):
        console.print(NOISY)


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write the run as JSON: every figure with all its rounds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)
