"""The machine that is measured on: its cores, the load by others, and what a process uses. Linux only."""

import os
import platform
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from webhook.core import patch

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
T = TypeVar("T")
QUIET = 0.05
"""Share of the machine's CPU time that others may use before a result is marked as noisy."""


def cores() -> tuple[int, int]:
    """(core of the servers, core of the load generator); if there is only one, they share it."""
    ours = sorted(os.sched_getaffinity(0))
    return ours[0], ours[-1]


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Programs that are started inside run only on this core; a Go program then also sees only one CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def turn(number: int, things: Iterable[T]) -> list[T]:
    """The things in alternating order, so that none is always measured right after the same other one, whose
    leftovers (an API server's garbage, full queues) would be its handicap."""
    forwards = list(things)
    return forwards[::-1] if number % 2 else forwards


def cpu_seconds(pid: int) -> float:
    """CPU time that all threads of a process have used so far, including threads that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_SECONDS


def rss(pid: int) -> float:
    """Resident memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def busy_seconds() -> float:
    """CPU time that all processes have used since the machine started."""
    fields = [int(f) for f in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle, waiting = fields[3], fields[4]
    return (sum(fields) - idle - waiting) * TICK_SECONDS


@dataclass
class Watch:
    """The share of the machine's CPU time that others used: `others` is 0 to 1 after the `with` block."""

    pids: list[int] = field(default_factory=list)  # processes that belong to the measurement, besides this one
    own: float = 0.0  # CPU time of measuring processes that have already ended, in seconds
    others: float = 0.0

    def __enter__(self) -> "Watch":
        self._wall, self._busy, self._used = time.monotonic(), busy_seconds(), self._ours()
        return self

    def __exit__(self, *_: object) -> None:
        wall = time.monotonic() - self._wall
        foreign = busy_seconds() - self._busy - (self._ours() - self._used) - self.own
        self.others = max(0.0, foreign / (wall * (os.cpu_count() or 1)))

    def _ours(self) -> float:
        return sum(cpu_seconds(pid) for pid in (os.getpid(), *self.pids))


def description() -> dict[str, str | int]:
    """What a reader needs to know about the machine to interpret the numbers."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return {
        "cpu": model,
        "cores": os.cpu_count() or 0,
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "core": "Python" if str(patch.__file__).endswith(".py") else "compiled",
    }


def load_average() -> str:
    """The three load averages of `uptime`."""
    return " ".join(f"{n:.2f}" for n in os.getloadavg())
