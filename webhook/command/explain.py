"""`accel explain -f`: what will be injected into each object of a manifest, and why, as text or data."""

from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from webhook.command import catalogue, reasons, terminal
from webhook.command.reasons import Explanation, Line, Part
from webhook.core.admission import view
from webhook.core.kinds.kind import Context
from webhook.core.messages import Denied
from webhook.core.site import Site
from webhook.errors import printable
from webhook.manifest import inject
from webhook.manifest.inject import Subject


def run(files: Sequence[tuple[str, str]], site: Site, namespace: str, output: str) -> int:
    """Returns the exit code: 1 if an object is denied."""
    found = [
        _explanation(subject, site, namespace)
        for name, text in files
        for _, document in inject.documents(text, name)
        for subject in inject.subjects(document, text, name)
    ]
    if not found:
        terminal.say("warning", "yellow", f"no object in {', '.join(name for name, _ in files)}")
    elif output == "text":
        terminal.show(Group(*_spaced(_page(explanation) for explanation in found)))
    else:
        catalogue.show(found[0] if len(found) == 1 else found, output)
    return int(any(explanation.denied for explanation in found))


def _explanation(subject: Subject, site: Site, namespace: str) -> Explanation:
    if subject.workload is None:
        return Explanation(subject.name, "a kind unknown to accel-injector: unchanged")
    try:
        obj = view(subject.workload, msgspec.json.encode(subject.value))
    except Denied as denied:
        return Explanation(subject.name, "denied", denied=denied.message)
    setting = Context(inject.namespace_of(subject.value) or namespace, site, offline=True)
    return reasons.explain(subject.name, subject.workload, subject.value, obj, setting)


def _spaced(pages: Iterable[RenderableType]) -> list[RenderableType]:
    spaced: list[RenderableType] = []
    for page in pages:
        spaced += ["", page] if spaced else [page]
    return spaced


def _page(explanation: Explanation) -> RenderableType:
    style = "bold red" if explanation.denied else "green" if explanation.verdict.startswith("injected") else ""
    around = [_listing("also", explanation.around, "  ")] if explanation.around else []
    return Group(
        Text.assemble((explanation.name, "bold cyan"), "  ", (explanation.verdict, style)),
        *(Text(f"  {line}", style="red") for line in explanation.denied.split("\n") if line),
        *(_part(part, not explanation.denied) for part in explanation.parts),
        *(["", *around] if around else []),
        *(Text.assemble(("  warning: ", "yellow"), warning) for warning in explanation.warnings),
    )


def _part(part: Part, resolved: bool) -> RenderableType:
    title = printable(f"{part.name}, {part.path}" if part.name else part.path)
    lines: list[RenderableType] = ["", Text(f"  {title}", style="bold"), _listing("asks for", part.asks)]
    if resolved and part.means:
        label = "means" if part.gets or part.gets_not else "gets"
        lines.append(Text.assemble((f"    {label:<{LABEL}}", "dim"), part.means))
    return Group(*lines, _listing("gets", part.gets), _listing("not added", part.gets_not))


LABEL = 11
"""Columns of the label before the lines."""


def _listing(label: str, lines: Sequence[Line], margin: str = "    ") -> RenderableType:
    """Lines, and below those with the same reason the reason: fits any width, and reads well aloud."""
    text, before = Text(), f"{margin}{label:<{LABEL}}"
    for index, line in enumerate(lines):
        text.append(before, "dim").append(f"{printable(line.what)}\n")
        before = " " * len(before)
        if index + 1 == len(lines) or lines[index + 1].why != line.why:
            text.append(f"{before}  ({printable(line.why)})\n", "dim")
    text.end = ""
    return text
