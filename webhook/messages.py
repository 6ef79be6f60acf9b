"""What the webhook says to people: denials and warnings, as two tables.

A denial's code is its address: the metric label, the log field and the anchor in docs/troubleshooting.md.
This module builds sentences; it decides nothing.
"""

LONGEST_VALUE = 64
"""Characters of a user's own text that are repeated to them; the rest is cut."""

LONGEST_WARNING = 120
"""Characters of one warning, prefix included. The API server cuts or drops longer ones.

Source: https://github.com/kubernetes/apiserver/blob/v0.37.2/pkg/endpoints/filters/warning.go
"""

DOCUMENTED = "docs/troubleshooting.md"

DENIALS: dict[str, str] = {
    # type
    "unknown-type": "accel.io/type: {value} is not in the catalogue\nnearest: {nearest}",
    "ambiguous-type": "accel.io/type: {value} names several accelerators\nchoose one of: {choices}",
}
"""code -> at most two lines; `Denied` adds the third. `{value}` is always the user's text, quoted and cut."""

FORBIDDEN = frozenset({"namespace-not-allowed", "scheduler-not-allowed", "placement-not-allowed", "mode-not-allowed"})
"""Denials that are an admin's policy (403 Forbidden), not a mistake in the object (422 Invalid)."""


def quoted(value: object) -> str:
    """A user's text made safe for one line: printable, at most `LONGEST_VALUE` characters, in double quotes."""
    text = "".join(c if c.isprintable() else "?" for c in str(value))
    return f'"{text[:LONGEST_VALUE]}…"' if len(text) > LONGEST_VALUE else f'"{text}"'


class Denied(Exception):
    """The object cannot be admitted as it is written; `message` says why and what would be valid.

    `value` is quoted here; every other fact is put into the sentence as it is, so callers pass only their own
    text there, or `quoted(...)`.
    """

    def __init__(self, code: str, *, value: object = "", **facts: object) -> None:
        self.code = code
        self.reason = "Forbidden" if code in FORBIDDEN else "Invalid"
        sentence = DENIALS[code].format(value=quoted(value), **facts)
        self.message = f"{sentence}\nsee {DOCUMENTED}#{code}"
        super().__init__(self.message)
