"""The cost of a function: calls of Python functions, and CPU time."""

import cProfile
import time
from collections.abc import Callable

SHORTEST = 0.002  # seconds: less is noise


def calls(work: Callable[[], object]) -> int:
    """The number of calls of Python functions; each resumption of a generator counts as one."""
    profile = cProfile.Profile(builtins=False, subcalls=False)
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def seconds(work: Callable[[], object]) -> float:
    """The CPU time that it takes."""
    begin = time.process_time()
    work()
    return time.process_time() - begin
