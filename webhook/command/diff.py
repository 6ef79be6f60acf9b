"""A unified diff from a text and its splices, which say what changed, so no comparison is needed. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from webhook.errors import printable
from webhook.manifest.edit import Splice, spliced


class _Change(NamedTuple):
    """Lines that replaced others; `at` counts from 0."""

    at: int
    old: list[str]
    new: list[str]


def unified(name: str, before: str, splices: Sequence[Splice], context: int = 3) -> Iterator[str]:
    """The diff's lines with their line breaks; empty if nothing changed. `context`: lines around a change.

    Lines end only at `\\n`, as for diff and patch.
    """
    lines = _lines(before)
    changes = [change for change in _changes(before, lines, splices) if change.old != change.new]
    if changes:
        yield f"--- {printable(name)}\n"
        yield f"+++ {printable(name)} (injected)\n"
    grown = 0
    for hunk in _hunks(changes, context):
        yield from _hunk(lines, hunk, context, grown)
        grown += sum(len(change.new) - len(change.old) for change in hunk)


def _lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [line + "\n" for line in lines] + ([last] if last else [])


def _changes(text: str, lines: Sequence[str], splices: Iterable[Splice]) -> Iterator[_Change]:
    starts = list(accumulate(map(len, lines), initial=0))
    if lines and not lines[-1].endswith("\n"):
        starts.pop()  # the end of the text is the end of its last line
    together: list[Splice] = []
    for splice in splices:
        if together and bisect_right(starts, splice.start) > bisect_right(starts, together[-1].end):
            yield _change(text, starts, together)
            together = []
        together.append(splice)
    if together:
        yield _change(text, starts, together)


def _change(text: str, starts: Sequence[int], splices: Sequence[Splice]) -> _Change:
    """Splices that share lines, without their unchanged lines."""
    first, last = bisect_right(starts, splices[0].start) - 1, bisect_right(starts, splices[-1].end)
    begin, end = starts[first], starts[last] if last < len(starts) else len(text)
    old = _lines(text[begin:end])
    new = _lines(spliced(text[begin:end], [Splice(s.start - begin, s.end - begin, s.text) for s in splices]))
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    old, new = old[same:], new[same:]
    while old and new and old[-1] == new[-1]:
        old.pop()
        new.pop()
    return _Change(first + same, old, new)


def _hunks(changes: Iterable[_Change], context: int) -> Iterator[list[_Change]]:
    """Changes whose contexts would touch are grouped."""
    together: list[_Change] = []
    for change in changes:
        if together and change.at - together[-1].at - len(together[-1].old) > 2 * context:
            yield together
            together = []
        together.append(change)
    if together:
        yield together


def _hunk(lines: Sequence[str], changes: Sequence[_Change], context: int, grown: int) -> Iterator[str]:
    last = changes[-1]
    begin, end = max(changes[0].at - context, 0), min(last.at + len(last.old) + context, len(lines))
    more = sum(len(change.new) - len(change.old) for change in changes)
    yield f"@@ -{_range(begin, end - begin)} +{_range(begin + grown, end - begin + more)} @@\n"
    at = begin
    for change in changes:
        yield from _marked(" ", lines[at : change.at])
        yield from _marked("-", change.old)
        yield from _marked("+", change.new)
        at = change.at + len(change.old)
    yield from _marked(" ", lines[at:end])


def _range(begin: int, count: int) -> str:
    """As in POSIX: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/diff.html"""
    if count == 1:
        return str(begin + 1)
    return f"{begin + 1 if count else begin},{count}"


def _marked(sign: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
