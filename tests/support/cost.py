"""What a piece of work costs, in calls of Python functions and in processor time."""

import cProfile
import time
from collections.abc import Callable

SHORTEST = 0.002  # seconds: what takes less is noise


def calls(work: Callable[[], object]) -> int:
    """How many Python functions are called for it; a generator counts each time that it goes on."""
    profile = cProfile.Profile(builtins=False, subcalls=False)
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def seconds(work: Callable[[], object]) -> float:
    """How long the processor works on it."""
    begin = time.process_time()
    work()
    return time.process_time() - begin
