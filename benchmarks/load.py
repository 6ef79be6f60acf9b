"""Runs the load generator against one server and returns its results."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine, programs
from benchmarks.servers import Server

SLACK = 0.9
"""If the load generator uses more than this share of its core, it may be the bottleneck instead of the server."""


class Failed(Exception):
    """Some responses were wrong, so the run is invalid."""


@dataclass(frozen=True)
class Load:
    """What to send, how often, and what every response must be."""

    body: Path
    connections: int
    seconds: float = 2.0
    calls: int = 0  # instead of `seconds`, if not 0
    reconnect: bool = False
    status: int = 200
    length: int = 0  # of every response body; 0: any
    contains: str = ""
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class Result:
    """Times in microseconds, rates per second."""

    rate: float
    p50: float
    p99: float
    server_cpu: float  # microseconds of the server's CPU time per call
    others: float  # share of the machine's CPU time that other processes used meanwhile
    client: float  # share of one core that the load generator used
    failures: dict[str, int]


def run(server: Server, load: Load, core: int | None = None, pid: int = 0) -> Result:
    """Send the load from one core; raises Failed if any response is wrong.

    `pid`: the process whose CPU time is measured, if it is not the server's own.
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
        raise Failed(f"{server.name}: {found['calls']} good responses, failures: {found['failures']}")
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
    """The command prefix that pins it to a core. It busy-polls, so it runs at idle priority: otherwise the kernel would
    move other processes, such as a waiting control plane, to the server's core."""
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
