"""Processor time that a piece of work may take, by its size: what takes longer is stopped, and fails."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")
BEST_OF = 5
SECONDS, PER_BYTE = 0.2, 50e-6  # generous: what is measured is some 5 us a byte, and the machine may be busy


class TooSlow(Exception):
    """The work went over its budget."""


@contextmanager
def within(size: int) -> Iterator[None]:
    """Work on `size` bytes; raises `TooSlow` in the middle of it, so that what hangs is a failure too."""
    allowed = SECONDS + PER_BYTE * size
    before = signal.signal(signal.SIGPROF, _stop)
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, 4 * allowed)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if (took := time.process_time() - begin) > allowed:
        raise TooSlow(f"{took:.2f} s for {size:,} bytes; {allowed:.2f} s would do")


def best(work: Callable[[], T], size: int) -> T:
    """What the work comes to; it may be slow a few times, when the machine or the garbage collector is busy."""
    for _ in range(BEST_OF - 1):
        try:
            with within(size):
                return work()
        except TooSlow:
            continue
    with within(size):
        return work()


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow("stopped after four times what it may take")
