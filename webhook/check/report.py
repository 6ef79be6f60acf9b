"""Findings as a page for people and as JSON for programs. Pure."""

import json
from collections import Counter

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook.check.checks import Judged
from webhook.check.facts import Facts
from webhook.check.finding import Finding, Status

STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}
WORST: tuple[Status, ...] = ("failed", "warning", "skipped", "ok")


def failing(judged: Judged) -> bool:
    """Whether a check failed."""
    return any(finding.status == "failed" for _, finding in judged)


def page(judged: Judged) -> RenderableType:
    """One line a check; below it what was found and what to do."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, finding in judged:
        grid.add_row(Text(finding.status, style=STYLES[finding.status]), name, _text(finding))
    return Group(grid, "", _summary(judged))


def _text(finding: Finding) -> RenderableType:
    if not finding.fix and not finding.details:
        return Text(finding.message)
    lines: list[RenderableType] = [Text(f"- {line}", style="dim") for line in finding.details]
    if finding.fix:
        lines.append(Text.assemble(("fix: ", "bold"), finding.fix))
    return Group(Text(finding.message), Padding(Group(*lines), (0, 0, 0, 2)))


def _summary(judged: Judged) -> Text:
    counted = Counter(finding.status for _, finding in judged)
    parts = [(f"{counted[status]} {status}", STYLES[status]) for status in WORST if counted[status]]
    text = Text()
    for index, (part, style) in enumerate(parts):
        text.append(", " if index else "").append(part, style)
    return text


def as_json(judged: Judged, facts: Facts) -> str:
    """The same for programs. Every key is always there; names of checks and statuses do not change."""
    version = facts.version if isinstance(facts.version, str) else ""
    document = {
        "release": facts.release.name,
        "namespace": facts.release.namespace,
        "serverVersion": version,
        "status": next((s for s in WORST if any(f.status == s for _, f in judged)), "ok"),
        "findings": [
            {"check": name, "status": f.status, "message": f.message, "fix": f.fix, "details": list(f.details)}
            for name, f in judged
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
