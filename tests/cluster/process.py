"""A program that runs beside the tests: started on loopback, logged to a file, ended by its process id.

It ends with us: on Linux the kernel kills it when the thread that started it ends, however that ends (so
start programs from the main thread). This module must not know what the programs are.
"""

import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

TAIL_LINES = 30
POLL_SECONDS = 0.05
PORT_RANGE = range(20000, 32000)  # below Linux's ephemeral range, so that outgoing connections do not take them

# Runs in the child before it becomes the program: die with the parent (prctl PR_SET_PDEATHSIG), and at once
# if the parent died in between. A preexec_fn would do the same, but may deadlock in a parent with threads.
GUARD = """
import ctypes, os, signal, sys
prctl = getattr(ctypes.CDLL(None), "prctl", None)
if prctl is not None:
    prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""

T = TypeVar("T")


class ClusterError(Exception):
    """Something of the test cluster did not work; the message ends with the log of what died."""


class Process:
    """One running program. `log` holds its standard output and error, of all its starts."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        self._stopped = False
        self._log_start = log.stat().st_size if log.exists() else 0
        guarded = [sys.executable, "-I", "-S", "-c", GUARD, str(os.getpid()), *command]
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                guarded,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=None if env is None else dict(env),
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    @property
    def died(self) -> bool:
        """Whether it ended though nobody stopped it."""
        return not self._stopped and not self.alive

    def tail(self) -> str:
        """Return the last lines that this start of the program wrote."""
        with self.log.open("rb") as handle:
            handle.seek(self._log_start)
            text = handle.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-TAIL_LINES:])

    def stop(self, grace: float = 5) -> None:
        """End it: SIGTERM, then SIGKILL after `grace` seconds. Does nothing when it has ended already."""
        self.signal(signal.SIGTERM)
        self.reap(grace)

    def signal(self, number: signal.Signals) -> None:
        """Ask it to end; whoever calls this means it, so its end is no longer an accident."""
        self._stopped = True
        if self.alive:
            self._popen.send_signal(number)

    def reap(self, grace: float) -> None:
        """Wait `grace` seconds for its end, then kill it."""
        try:
            self._popen.wait(grace)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    def report(self) -> str:
        return f"{self.name} ended with code {self._popen.poll()}; the end of {self.log}:\n{self.tail()}"


def wait_for(what: str, probe: Callable[[], T], seconds: float, processes: Sequence[Process] = ()) -> T:
    """Call `probe` until it returns something true, and return that.

    Raises ClusterError after `seconds`, or at once when one of the processes dies: `what` says in words what
    was waited for. Exceptions of the probe pass through.
    """
    deadline = time.monotonic() + seconds
    while True:
        for process in processes:
            if process.died:
                raise ClusterError(f"waited for {what}, but {process.report()}")
        value = probe()
        if value:
            return value
        if time.monotonic() > deadline:
            raise ClusterError(f"waited {seconds:.0f} s for {what}; it last was {value!r}")
        time.sleep(POLL_SECONDS)


def free_port() -> int:
    """Return a loopback port that nothing listens on just now; another program may still be quicker."""
    for port in random.sample(PORT_RANGE, 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ClusterError("no free loopback port among 200 tried")


def answers(url: str) -> bool:
    """Whether an HTTP server on loopback answers the URL with 200."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=2)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def listening(port: int) -> bool:
    """Whether something accepts connections on the loopback port."""
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0
