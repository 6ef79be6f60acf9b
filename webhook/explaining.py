"""`accel explain -f`: what will be injected into each object of a manifest, and why, for people or as data."""

from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook import listing, manifest, reasons, terminal
from webhook.admission import view
from webhook.kinds.workload import Setting
from webhook.manifest import Subject
from webhook.messages import Denied
from webhook.reasons import Explanation, Line, Part
from webhook.site import Site


def run(files: Sequence[tuple[str, str]], site: Site, namespace: str, output: str) -> int:
    """The exit code: 1 where an object is denied."""
    found = [
        _explanation(subject, site, namespace)
        for name, text in files
        for _, document in manifest.documents(text, name)
        for subject in manifest.subjects(document, text, name)
    ]
    if output == "text":
        terminal.show(Group(*_spaced(_page(explanation) for explanation in found)))
    else:
        listing.show(found[0] if len(found) == 1 else found, output)
    return int(any(explanation.denied for explanation in found))


def _explanation(subject: Subject, site: Site, namespace: str) -> Explanation:
    if subject.workload is None:
        return Explanation(subject.name, "a kind that accel-injector does not know: left as it is")
    try:
        obj = view(subject.workload, msgspec.json.encode(subject.value))
    except Denied as denied:
        return Explanation(subject.name, "denied", denied=denied.message)
    setting = Setting(manifest.namespace_of(subject.value) or namespace, site, offline=True)
    return reasons.explain(subject.name, subject.workload, subject.value, obj, setting)


def _spaced(pages: Iterable[RenderableType]) -> list[RenderableType]:
    spaced: list[RenderableType] = []
    for page in pages:
        spaced += ["", page] if spaced else [page]
    return spaced


def _page(explanation: Explanation) -> RenderableType:
    style = "bold red" if explanation.denied else "green" if explanation.verdict.startswith("injected") else ""
    parts = (Padding(_part(part, not explanation.denied), (1, 0, 0, 2)) for part in explanation.parts)
    around = _grid(_rows("around it", explanation.around))
    return Group(
        Text.assemble((explanation.name, "bold cyan"), "  ", (explanation.verdict, style)),
        *(Text(f"  {line}", style="red") for line in explanation.denied.splitlines()),
        *parts,
        *([Padding(around, (1, 0, 0, 2))] if explanation.around else []),
        *(Text.assemble(("  warning: ", "yellow"), warning) for warning in explanation.warnings),
    )


def _part(part: Part, resolved: bool) -> RenderableType:
    title = f"{part.name}, {part.path}" if part.name else part.path
    rows = [*_rows("asks", part.asks)]
    if resolved and part.means:
        rows.append(("means" if part.gets or part.gets_not else "gets", part.means, ""))
    rows += [*_rows("gets", part.gets), *_rows("gets no", part.gets_not)]
    return Group(Text(title, style="bold"), Padding(_grid(rows), (0, 0, 0, 2)))


def _rows(label: str, lines: Sequence[Line]) -> Iterable[tuple[str, str, str]]:
    """The label and a reason stand once, where they begin."""
    before = ""
    for index, line in enumerate(lines):
        yield ("" if index else label, line.what, "" if line.why == before else line.why)
        before = line.why


def _grid(rows: Iterable[tuple[str, str, str]]) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", min_width=8, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_column(style="dim", overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid
