"""Servers over TLS, one core for the server and one for the load: throughput, latency, memory, new connections.

Rounds alternate (A B C C B A), so that disturbances of the machine affect all servers alike.
"""

from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import load, machine, reviews, sameness
from benchmarks.sample import Figure
from benchmarks.servers import Server, Servers

REVIEW = "jobset-pod"
CONNECTIONS = (1, 16, 64, 200)
CALLS = 100_000
MEMORY_STEPS = 5


@dataclass
class Row:
    """One server under one load."""

    rate: Figure = field(default_factory=lambda: Figure("calls/s"))
    p50: Figure = field(default_factory=lambda: Figure("us"))
    p99: Figure = field(default_factory=lambda: Figure("us"))
    cpu: Figure = field(default_factory=lambda: Figure("us/call"))
    rss: Figure = field(default_factory=lambda: Figure("MiB"))
    client: Figure = field(default_factory=lambda: Figure("share of a core"))

    def add(self, result: load.Result, rss: float) -> None:
        self.rate.add(result.rate, result.others)
        self.p50.add(result.p50, result.others)
        self.p99.add(result.p99, result.others)
        self.cpu.add(result.server_cpu, result.others)
        self.rss.add(rss)
        self.client.add(result.client)


Table = dict[int, dict[str, Row]]
"""By the number of connections, then by the server's name."""


def body_file(directory: Path, name: str = REVIEW) -> Path:
    """The review in a file, for the load generator."""
    path = directory / f"{name}.json"
    path.write_bytes(reviews.load(name))
    return path


def compare(
    servers: list[Server],
    directory: Path,
    connections: tuple[int, ...] = CONNECTIONS,
    *,
    rounds: int = 3,
    seconds: float = 2.0,
    reconnect: bool = False,
) -> Table:
    """Every server with every number of connections. Each response must have the length of the one that was checked."""
    lengths = sameness.check(servers)
    body = body_file(directory)
    _, core = machine.cores()
    table: Table = {count: {server.name: Row() for server in servers} for count in connections}
    for number in range(rounds):
        for count, rows in table.items():
            for server in machine.turn(number, servers):
                asked = load.Load(body, count, seconds, reconnect=reconnect, length=lengths[server.name][REVIEW])
                rows[server.name].add(load.run(server, asked, core), machine.rss(server.process.pid))
    return table


def memory(servers: Servers, directory: Path, calls: int = CALLS) -> list[float]:
    """Resident MiB of a new `accel serve`: at its start, and after each fifth of the calls."""
    server_core, core = machine.cores()
    server = servers.start("accel", server_core)
    found = [machine.rss(server.process.pid)]
    step = load.Load(body_file(directory), 64, calls=calls // MEMORY_STEPS)
    for _ in range(MEMORY_STEPS):
        load.run(server, step, core)
        found.append(machine.rss(server.process.pid))
    servers.stop(server)
    return found


def starts(servers: Servers, names: tuple[str, ...], rounds: int = 5) -> dict[str, Figure]:
    """Seconds from the start of a process until it is ready (our servers) or accepts connections (peers)."""
    core, _ = machine.cores()
    figures = {name: Figure("s") for name in names}
    for _ in range(rounds):
        for name in names:
            with machine.Watch() as watch:
                server = servers.start(name, core)
                watch.own = machine.cpu_seconds(server.process.pid)
            servers.stop(server)
            figures[name].add(server.ready_seconds, watch.others)
    return figures
