"""`accel inject`: files in, injected files out; warnings and denials to stderr. `manifest` does the work."""

from collections.abc import Iterator, Sequence
from textwrap import indent

from webhook.command import diff, terminal
from webhook.core.site import Site
from webhook.manifest import inject
from webhook.manifest.edit import Splice
from webhook.manifest.inject import Result
from webhook.manifest.style import JSON

Files = list[tuple[str, list[Result]]]


def run(files: Sequence[tuple[str, str]], site: Site, namespace: str, output: str) -> int:
    """Returns the exit code: 0, or 1 if a document was denied; then nothing is written to stdout."""
    found = [(name, inject.results(text, site, namespace, name)) for name, text in files]
    several = sum(len(results) for _, results in found) > 1
    for name, results in found:
        _tell(name, results, several)
    if any(result.denied for _, results in found for result in results):
        return 1
    if all(result.empty for _, results in found for result in results):
        terminal.say("warning", "yellow", f"no object in {', '.join(name for name, _ in found)}")
    _print(found, output)
    return 0


def _tell(name: str, results: Sequence[Result], several: bool) -> None:
    for result in results:
        place = f"{name}, document {result.number}" if several else name
        for subject, text in result.warnings:
            terminal.say("warning", "yellow", f"{_where(place, subject)}: {text}")
        for subject, denied in result.denied:
            terminal.say("denied", "bold red", f"{_where(place, subject)}: {denied.message}")


def _where(place: str, subject: str) -> str:
    return f"{place}, {subject}" if subject else place


def _print(found: Files, output: str) -> None:
    if output == "json":
        terminal.write("".join(_json([r for _, results in found for r in results if not r.empty])))
    elif output == "diff":
        for name, results in found:
            terminal.diff(diff.unified(name, *_together(results)))
    else:
        terminal.write(inject.joined(["".join(r.after for r in results) for _, results in found]))


def _json(results: Sequence[Result]) -> Iterator[str]:
    """One object, or a list of them; decoded one at a time, since values are larger than their text."""
    if len(results) == 1:
        yield JSON.pretty(results[0].value) + "\n"
        return
    for index, result in enumerate(results):
        yield "[\n" if not index else ",\n"
        yield indent(JSON.pretty(result.value), "  ")
    yield "\n]\n" if results else "[]\n"


def _together(results: Sequence[Result]) -> tuple[str, list[Splice]]:
    """The text of all documents, and the changes in it."""
    splices: list[Splice] = []
    at = 0
    for result in results:
        splices += [Splice(at + s.start, at + s.end, s.text) for s in result.splices]
        at += len(result.before)
    return "".join(result.before for result in results), splices
