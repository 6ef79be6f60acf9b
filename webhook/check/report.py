"""Findings as a page for people and as JSON for programs. Pure."""

from collections import Counter
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from webhook.check.checks import Judged
from webhook.check.facts import Facts
from webhook.check.finding import Finding, Status
from webhook.manifest.style import JSON

STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}
WORST: tuple[Status, ...] = ("failed", "warning", "skipped", "ok")


def failing(judged: Judged) -> bool:
    """Whether a check failed."""
    return any(finding.status == "failed" for _, finding in judged)


def page(judged: Judged) -> RenderableType:
    """One line per check; below it what was found and what to do."""
    width = max(len(name) for name, _ in judged)
    lines = [line for name, finding in judged for line in _lines(f"{name:<{width}}", finding)]
    return Group(*lines, "", _summary(judged))


def _lines(name: str, finding: Finding) -> Iterator[Text]:
    status = (f"{finding.status:<8} ", STYLES[finding.status])
    yield Text.assemble(status, f"{name}  {_printable(finding.message)}")
    for line in finding.details:
        yield Text(f"    - {_printable(line)}", style="dim")
    if finding.fix:
        yield Text.assemble(("    fix: ", "bold"), _printable(finding.fix))


def _printable(text: str) -> str:
    """It contains messages of other webhooks, which must not control the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


def _summary(judged: Judged) -> Text:
    counted = Counter(finding.status for _, finding in judged)
    parts = [(f"{counted[status]} {status}", STYLES[status]) for status in WORST if counted[status]]
    text = Text()
    for index, (part, style) in enumerate(parts):
        text.append(", " if index else "").append(part, style)
    return text


def as_json(judged: Judged, facts: Facts) -> str:
    """The same for programs. Every key is always present; names of checks and statuses are stable."""
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
    return JSON.pretty(document) + "\n"
