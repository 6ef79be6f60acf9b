"""`accel inject`: files in, injected files out; warnings and denials to stderr. The work is `manifest`'s."""

import json
from collections.abc import Sequence

from webhook import manifest, terminal
from webhook.manifest import Result
from webhook.site import Site

Files = list[tuple[str, list[Result]]]


def run(files: Sequence[tuple[str, str]], site: Site, namespace: str, output: str) -> int:
    """The exit code: 0, or 1 where a document was denied, and then there is nothing on stdout."""
    found = [(name, manifest.results(text, site, namespace, name)) for name, text in files]
    several = sum(len(results) for _, results in found) > 1
    for name, results in found:
        _tell(name, results, several)
    if any(result.denied for _, results in found for result in results):
        return 1
    if not any(result.value is not None for _, results in found for result in results):
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
        values = [r.value for _, results in found for r in results if r.value is not None]
        terminal.write(json.dumps(values[0] if len(values) == 1 else values, indent=2, ensure_ascii=False) + "\n")
    elif output == "diff":
        for name, results in found:
            before, after = ("".join(getattr(r, side) for r in results) for side in ("before", "after"))
            terminal.out().print(terminal.coloured(terminal.diff(before, after, name)), end="", soft_wrap=True)
    else:
        terminal.write(manifest.joined(["".join(r.after for r in results) for _, results in found]))
