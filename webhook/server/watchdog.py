"""Detects a stalled event loop, and ends the process if it stays stalled: the other replicas serve, and this one
restarts. Bounds on every input are the defence; this is for the input that nobody thought of.

The loop beats four times a second. Readiness depends on the last beat (`stalled`). The process ends only after a
stall of `FATAL_SECONDS` in which nothing was accepted, negotiated or answered either. Only the loop's own time counts:
not waiting for a CPU, nor being stopped or suspended, since a restarted replica would be starved just the same.
What detects the stall depends on what the loop is stuck in:

* The probes' thread, if Python runs or waits: a loop in Python, a sleep, a lock, a disk that hangs.
* A timer on CPU time, if C code holds the GIL and checks for signals, as the `re` module does.
* faulthandler's thread, if C code holds the GIL and checks for nothing, such as a loop in the compiled core.
  It runs without the GIL, so it cannot say which review it was: a traceback on stderr, and exit code 1. It uses
  wall-clock time, so a process that was stopped for that long may end, too.

The first two log which review the loop was busy with, and exit with `EXIT_CODE`. What none of them detects, C code
that waits in the kernel while holding the GIL, answers no probes either, and the kubelet restarts it.
"""

import asyncio
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from webhook.core import limits
from webhook.server.log import Log, cut

BEAT_SECONDS = 0.25

UNREADY_SECONDS = 1.5
"""Without a beat, after which a replica is not ready: it reports so within two seconds."""

FATAL_SECONDS = 5.0
"""The timeout of API servers in our chart, so that all callers have given up by then."""

LAST_SECONDS = 20.0
"""For faulthandler, which must leave the others time to report more, even on a busy machine."""

ARM_SECONDS = 5.0
"""How often faulthandler is re-armed. Each time it does not watch for a moment."""

EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h. A replica that could not start exits with 1, one that was told to stop with 0 or 1."""


class Watchdog:
    """Watches one event loop. Another thread calls `tick` every `BEAT_SECONDS`; the loop's calls everything else."""

    def __init__(self, log: Log, deciding: Callable[[], bytes | None], progress: Callable[[], int]) -> None:
        self._log = log
        self._deciding = deciding  # the review that is being decided
        self._progress = progress  # grows with everything that is accepted, negotiated or answered
        self._deadly = False
        self._beats = 0
        self._beaten = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._schedule = Path("/nowhere")  # how long the loop's thread has waited for a CPU
        self._seen = (0, 0)  # beats and progress, at the last tick
        self._spent = (0, (0, 0))  # seconds of CPU time without any, and since when
        self._lost = 0.0  # seconds of the loop's own time since something happened
        self._waited = 0
        self._armed = float("-inf")  # when faulthandler was last armed

    @property
    def stalled(self) -> float:
        """Seconds since the loop's last beat."""
        return time.monotonic() - self._beaten

    def start(self, *, deadly: bool) -> None:
        """Watch the running loop; `deadly` if the process does nothing else, on its main thread."""
        self._deadly = deadly
        self._schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        if deadly:
            signal.signal(signal.SIGPROF, lambda *_: self._on_processor_time())
        self._beat(asyncio.get_running_loop())

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
        if self._deadly:
            self._deadly = False
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.cancel_dump_traceback_later()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._beats += 1
        self._beaten = time.monotonic()
        if self._deadly:
            signal.setitimer(signal.ITIMER_PROF, 1, 1)
            self._arm()
        self._timer = loop.call_later(BEAT_SECONDS, self._beat, loop)

    def _arm(self) -> None:
        """Re-arm faulthandler, which releases the GIL and does not watch meanwhile.

        So the loop does it: while it is here, it is not stuck.
        """
        now = time.monotonic()
        if now >= self._armed + ARM_SECONDS:
            self._armed = now
            faulthandler.dump_traceback_later(LAST_SECONDS, exit=True)

    def tick(self) -> None:
        """Check whether anything has happened on the loop, and end the process if nothing has for too long."""
        if not self._deadly:
            return
        if self.stalled > ARM_SECONDS:  # we are running, so nothing holds the GIL: what follows decides
            self._arm()
        waited = self._processor_wait()
        seen, self._seen = self._seen, self._moment()
        if seen != self._seen:
            self._lost = 0.0
        else:
            self._lost += max(0.0, BEAT_SECONDS - (waited - self._waited) / 1e9)
        self._waited = waited
        if self._lost >= FATAL_SECONDS:
            self._end()

    def _on_processor_time(self) -> None:
        """On the main thread: another second of this process's CPU time without a beat."""
        seconds, since = self._spent
        moment = self._moment()
        self._spent = (seconds + 1 if moment == since else 0, moment)
        if self._spent[0] >= FATAL_SECONDS:
            self._end()

    def _moment(self) -> tuple[int, int]:
        """Changes whenever something has happened on the loop."""
        return self._beats, self._progress()

    def _processor_wait(self) -> int:
        """Nanoseconds that the loop's thread was runnable but not running; 0 if the system does not say.

        Source: https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat
        """
        try:
            return int(self._schedule.read_bytes().split()[1])
        except (OSError, IndexError):
            return 0

    def _end(self) -> None:
        # On its own thread: the one that is stuck may hold the log's lock.
        report = threading.Thread(target=self._report, daemon=True)
        report.start()
        report.join(1.0)
        os._exit(EXIT_CODE)

    def _report(self) -> None:
        facts = whose(self._deciding())
        self._log.error("stalled", seconds=round(self.stalled, 1), exit_code=EXIT_CODE, **facts, stack=_stack())


class _Object(msgspec.Struct):
    uid: str = ""
    namespace: str = ""
    name: str = ""
    operation: str = ""


class _Review(msgspec.Struct):
    request: _Object


def whose(body: bytes | None) -> dict[str, str]:
    """What identifies a review, as far as it can be read; empty if there is none."""
    if body is None:
        return {}
    try:
        request = msgspec.json.decode(body, type=_Review).request
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    return {name: cut(value, limits.NAME) for name, value in msgspec.structs.asdict(request).items()}


def _stack() -> str:
    """What all threads are doing, as reported by faulthandler: at most 100 frames each, far less than a pipe holds."""
    read, write = os.pipe()
    faulthandler.dump_traceback(file=write, all_threads=True)
    os.close(write)
    with os.fdopen(read, "rb") as text:
        return text.read().decode(errors="replace")
