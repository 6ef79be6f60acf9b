"""What one check says. Pure."""

from typing import Literal

import msgspec

from webhook.check.facts import Unread

Status = Literal["ok", "warning", "failed", "skipped"]

MOST_DETAILS = 10
"""Lines below a finding; the rest is counted."""


class Finding(msgspec.Struct, frozen=True):
    """A status, a sentence, and where it is not `ok`, what to do."""

    status: Status
    message: str
    fix: str = ""
    details: tuple[str, ...] = ()


def ok(message: str, *details: str) -> Finding:
    """As it should be."""
    return Finding("ok", message, "", some(details))


def warning(message: str, fix: str, *details: str) -> Finding:
    """It works, but not as somebody expects, or not for long."""
    return Finding("warning", message, fix, some(details))


def failed(message: str, fix: str, *details: str) -> Finding:
    """It does not work."""
    return Finding("failed", message, fix, some(details))


def skipped(unread: Unread) -> Finding:
    """The check could not be made: a right is missing, or an answer."""
    if unread.status == 403:
        return Finding("skipped", f"needs {unread.needs}", "Ask for the right, or let somebody check who has it.")
    return Finding("skipped", f"{unread.needs}: {unread.why}")


def pointless(why: str) -> Finding:
    """Another check says what is wrong first."""
    return Finding("skipped", why)


def some(lines: tuple[str, ...]) -> tuple[str, ...]:
    """At most `MOST_DETAILS` lines."""
    if len(lines) <= MOST_DETAILS:
        return lines
    return (*lines[:MOST_DETAILS], f"and {len(lines) - MOST_DETAILS} more")
