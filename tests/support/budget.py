"""A limit on CPU time that depends on the size of the input: what exceeds it is interrupted, and fails."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")
BEST_OF = 5
SECONDS, PER_BYTE = 0.2, 50e-6  # generous: about 5 us per byte are measured, and the machine may be busy


class TooSlow(Exception):
    """The work exceeded its limit."""


@contextmanager
def within(size: int) -> Iterator[None]:
    """For work on `size` bytes; interrupts it with `TooSlow`, so that an endless loop is a failure too."""
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
        raise TooSlow(f"{took:.2f} s for {size:,} bytes; the limit is {allowed:.2f} s")


def best(work: Callable[[], T], size: int) -> T:
    """The result of the work. It may be too slow a few times, while the machine or the garbage collector is busy."""
    for _ in range(BEST_OF - 1):
        try:
            with within(size):
                return work()
        except TooSlow:
            continue
    with within(size):
        return work()


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow("stopped after four times the limit")
