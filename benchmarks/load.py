"""Runs the load generator against one server and says what came of it."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine, programs
from benchmarks.servers import Server

SLACK = 0.9
"""Share of its core above which the load generator, and not the server, may be what was measured."""


class Failed(Exception):
    """Some answers were not good: nothing may be concluded from such a run."""


@dataclass(frozen=True)
class Load:
    """What to send, how much of it, and what every answer must be."""

    body: Path
    connections: int
    seconds: float = 2.0
    calls: int = 0  # instead of `seconds`, where not 0
    reconnect: bool = False
    status: int = 200
    length: int = 0  # of every answer's body; 0: any
    contains: str = ""
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class Result:
    """Times in microseconds, rates per second."""

    rate: float
    p50: float
    p99: float
    server_cpu: float  # microseconds of the server's processor time per call; 0 where the server is not a process
    others: float  # share of the machine that others used meanwhile
    client: float  # share of one core that the load generator worked
    failures: dict[str, int]


def run(server: Server, load: Load, core: int | None = None, pid: int = 0) -> Result:
    """Send the load from one core; raises Failed when any answer is wrong.

    `pid`: the process whose time is counted, where it is not the server's own.
    """
    counted = pid or server.process.pid
    command = [
        *_pinned(core),
        str(programs.ensure("load")),
        f"-poll={str(core is not None).lower()}",
        *_flags(server, load),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as generator:
        assert generator.stdout is not None
        assert generator.stderr is not None
        if generator.stdout.readline().strip() != "measuring":
            raise Failed(f"{server.name}: {generator.stderr.read()}")
        with machine.Watch([counted]) as watch:
            before = machine.cpu_seconds(counted)
            found = json.loads(generator.stdout.read() or "{}")
            spent = machine.cpu_seconds(counted) - before
            watch.own = found.get("client_cpu_seconds", 0.0)
    if generator.returncode:
        raise Failed(f"{server.name}: the load generator ended with code {generator.returncode}")
    if found["failures"] or not found["calls"]:
        raise Failed(f"{server.name}: {found['calls']} good answers, and {found['failures']}")
    return Result(
        rate=found["calls"] / found["seconds"],
        p50=found["p50_us"],
        p99=found["p99_us"],
        server_cpu=spent / found["calls"] * 1e6,
        others=watch.others,
        client=(found["client_cpu_seconds"] - found["client_idle_seconds"]) / found["seconds"],
        failures=found["failures"],
    )


def _pinned(core: int | None) -> list[str]:
    """It looks for answers all the time, so all else on its core goes before it: a control plane that waits beside us
    would else be moved to the server's core."""
    return [] if core is None else ["chrt", "--idle", "0", "taskset", "-c", str(core)]


def _flags(server: Server, load: Load) -> list[str]:
    flags = {
        "url": server.url,
        "body": load.body,
        "ca": server.ca,
        "name": server.host,
        "connections": load.connections,
        "duration": f"{load.seconds}s",
        "calls": load.calls,
        "status": load.status,
        "length": load.length,
        "contains": load.contains,
        "reconnect": str(load.reconnect).lower(),
    }
    if load.cert is not None and load.key is not None:
        flags |= {"cert": load.cert, "key": load.key}
    return [f"-{name}={value}" for name, value in flags.items()]
