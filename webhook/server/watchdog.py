"""Sees when the event loop is stalled, and ends the process when it stays so: the other replicas serve, and this one
starts again. Bounds on every input are the defence; this is for the input that nobody thought of.

The loop beats four times a second. Readiness fails on what it was last heard (`stalled`). To end the process takes a
stall of `FATAL_SECONDS` in which nothing was accepted, negotiated or answered either, and which is the loop's own:
waiting for a processor, being stopped or suspended do not count, since a replica that is starved would only be starved
of its start, too. Who finds out depends on what the loop is stuck in:

* The probes' thread, when Python runs or waits: a loop in Python, a sleep, a lock, a disk that hangs.
* A timer on processor time, when C code holds the interpreter and looks for signals, as the `re` module does.
* faulthandler's thread, when C code holds the interpreter and looks for nothing, such as a loop in the compiled core.
  It needs no interpreter, so it cannot say whose review it was: a traceback on stderr, and exit code 1. It measures by
  the clock, so a process that was stopped for as long may end, too.

The first two say on the log which review the loop was busy with, and end with `EXIT_CODE`. What none of them finds, C
code that waits in the kernel with the interpreter held, answers no probes either, and the kubelet restarts it.
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
"""Without a beat, from which on a replica is not ready: within two seconds it says so."""

FATAL_SECONDS = 5.0
"""An API server waits as long for an answer in our chart, so that whoever waits has given up."""

LAST_SECONDS = 20.0
"""For faulthandler, which has to leave the others time to say more, on a machine that is busy, too."""

ARM_SECONDS = 5.0
"""How often faulthandler is told that all is well. While it is told, a moment each time, it does not watch."""

EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h. A replica that could not start ends with 1, one that was told to stop with 0 or 1."""


class Watchdog:
    """Of one event loop. `tick` is for another thread's, each `BEAT_SECONDS`; everything else for the loop's own."""

    def __init__(self, log: Log, deciding: Callable[[], bytes | None], progress: Callable[[], int]) -> None:
        self._log = log
        self._deciding = deciding  # the review that is being decided
        self._progress = progress  # grows with all that is accepted, negotiated or answered
        self._deadly = False
        self._beats = 0
        self._beaten = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._schedule = Path("/nowhere")  # where the system says how long the loop's thread waited for a processor
        self._seen = (0, 0)  # beats and progress, at the latest tick
        self._spent = (0, (0, 0))  # seconds of processor time without any, and since which
        self._lost = 0.0  # seconds of the loop's own since something happened
        self._waited = 0
        self._told = float("-inf")  # when faulthandler was

    @property
    def stalled(self) -> float:
        """Seconds since the loop was last heard."""
        return time.monotonic() - self._beaten

    def start(self, *, deadly: bool) -> None:
        """Watch the running loop; `deadly` in a process that is for nothing else, on its main thread."""
        self._deadly = deadly
        self._schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        if deadly:
            signal.signal(signal.SIGPROF, lambda *_: self._on_processor_time())
        self._beat(asyncio.get_running_loop())

    def stop(self) -> None:
        """Watch no more."""
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
        """Tell faulthandler that all is well. It lets go of the interpreter meanwhile, and does not watch.

        So the loop does it: while it is here, it is stuck in nothing.
        """
        now = time.monotonic()
        if now >= self._told + ARM_SECONDS:
            self._told = now
            faulthandler.dump_traceback_later(LAST_SECONDS, exit=True)

    def tick(self) -> None:
        """Look whether anything has happened on the loop, and end the process when nothing has for too long."""
        if not self._deadly:
            return
        if self.stalled > ARM_SECONDS:  # we are here, so nobody holds the interpreter: the rest of this decides
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
        """On the main thread: another second of this process's processor time without a beat."""
        seconds, since = self._spent
        moment = self._moment()
        self._spent = (seconds + 1 if moment == since else 0, moment)
        if self._spent[0] >= FATAL_SECONDS:
            self._end()

    def _moment(self) -> tuple[int, int]:
        """Another whenever something has happened on the loop."""
        return self._beats, self._progress()

    def _processor_wait(self) -> int:
        """Nanoseconds that the loop's thread was ready to run and did not; 0 where the system does not say.

        Source: https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat
        """
        try:
            return int(self._schedule.read_bytes().split()[1])
        except (OSError, IndexError):
            return 0

    def _end(self) -> None:
        # On a thread of its own: the one that is stuck may hold the log.
        last_words = threading.Thread(target=self._say, daemon=True)
        last_words.start()
        last_words.join(1.0)
        os._exit(EXIT_CODE)

    def _say(self) -> None:
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
    """What a review says of itself, as far as it can be read; nothing where there is none."""
    if body is None:
        return {}
    try:
        request = msgspec.json.decode(body, type=_Review).request
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    return {name: cut(value, limits.NAME) for name, value in msgspec.structs.asdict(request).items()}


def _stack() -> str:
    """What all threads are doing, in the words of faulthandler: at most 100 frames each, far less than a pipe holds."""
    read, write = os.pipe()
    faulthandler.dump_traceback(file=write, all_threads=True)
    os.close(write)
    with os.fdopen(read, "rb") as text:
        return text.read().decode(errors="replace")
