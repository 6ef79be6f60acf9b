"""The result of one check. Pure."""

from typing import Literal

import msgspec

from webhook.check.facts import Unread

Status = Literal["ok", "warning", "failed", "skipped"]

MAX_DETAILS = 10
"""Lines below a finding; the rest are counted."""


class Finding(msgspec.Struct, frozen=True):
    """A status, a sentence and, unless it is `ok`, what to do."""

    status: Status
    message: str
    fix: str = ""
    details: tuple[str, ...] = ()


def ok(message: str, *details: str) -> Finding:
    """Everything is as it should be."""
    return Finding("ok", message, "", some(details))


def warning(message: str, fix: str, *details: str) -> Finding:
    """It works, but not as expected, or not for long."""
    return Finding("warning", message, fix, some(details))


def failed(message: str, fix: str, *details: str) -> Finding:
    """It does not work."""
    return Finding("failed", message, fix, some(details))


def skipped(unread: Unread) -> Finding:
    """The check could not be made: a permission or a response is missing."""
    if unread.status == 403:
        return Finding("skipped", f"needs {unread.needs}", "Ask for this permission, or for somebody who has it.")
    return Finding("skipped", f"{unread.needs}: {unread.why}")


def pointless(why: str) -> Finding:
    """Another check already reports the cause."""
    return Finding("skipped", why)


def some(lines: tuple[str, ...]) -> tuple[str, ...]:
    """At most `MAX_DETAILS` lines."""
    if len(lines) <= MAX_DETAILS:
        return lines
    return (*lines[:MAX_DETAILS], f"and {len(lines) - MAX_DETAILS} more")
