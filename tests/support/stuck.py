"""Decisions that never come to an end, for a replica in a process of its own. Reviews of other objects are allowed."""

import re
import time

from tests.support.client import allow
from webhook.core.admission import Answer
from webhook.core.site import Site

STUCK = b'"stuck"'


def asleep(body: bytes, site: Site) -> Answer:
    """Waits; others may use the interpreter meanwhile."""
    if STUCK in body:
        time.sleep(600)
    return allow(body, site)


def looping(body: bytes, site: Site) -> Answer:
    """Python code, which lets others have the interpreter now and then."""
    while STUCK in body:
        pass
    return allow(body, site)


def backtracking(body: bytes, site: Site) -> Answer:
    """C code that holds the interpreter and looks for signals."""
    if STUCK in body:
        re.match(r"(a+)+$", "a" * 60 + "b")
    return allow(body, site)


def counting(body: bytes, site: Site) -> Answer:
    """C code that holds the interpreter and looks for nothing."""
    if STUCK in body:
        sum(range(10**12))
    return allow(body, site)


def slow(body: bytes, site: Site) -> Answer:
    """A second of work for each review: bad, and no stall."""
    end = time.thread_time() + 1
    while STUCK in body and time.thread_time() < end:
        pass
    return allow(body, site)
