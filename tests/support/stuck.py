"""`decide` functions that never return, for a replica in its own process. They allow reviews of other objects."""

import re
import time

from tests.support.client import allow
from webhook.core.admission import Answer
from webhook.core.site import Site

STUCK = b'"stuck"'


def asleep(body: bytes, site: Site) -> Answer:
    """Sleeps, without holding the GIL."""
    if STUCK in body:
        time.sleep(600)
    return allow(body, site)


def looping(body: bytes, site: Site) -> Answer:
    """An endless loop in Python, which releases the GIL periodically."""
    while STUCK in body:
        pass
    return allow(body, site)


def backtracking(body: bytes, site: Site) -> Answer:
    """C code that holds the GIL and checks for signals."""
    if STUCK in body:
        re.match(r"(a+)+$", "a" * 60 + "b")
    return allow(body, site)


def counting(body: bytes, site: Site) -> Answer:
    """C code that holds the GIL and does not check for signals."""
    if STUCK in body:
        sum(range(10**12))
    return allow(body, site)


def slow(body: bytes, site: Site) -> Answer:
    """A second of work for each review: slow, but not a stall."""
    end = time.thread_time() + 1
    while STUCK in body and time.thread_time() < end:
        pass
    return allow(body, site)
