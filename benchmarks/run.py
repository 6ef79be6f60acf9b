"""The levels of a run, in order: what each one starts, measures, prints and reports to the targets."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import cluster as bed
from benchmarks import incluster, inprocess, machine, overtls, report, reviews, servers
from benchmarks.sample import Figure, ratio, short
from benchmarks.servers import Server, Servers
from benchmarks.targets import Measured
from tests.cluster import controllers
from tests.cluster.tinyca import TinyCA


@dataclass
class Run:
    """One run: its options, what it has started, and its results."""

    quick: bool
    directory: Path
    stack: ExitStack
    found: dict[str, Any] = field(default_factory=dict)  # for the JSON file, by level
    measured: dict[str, Measured] = field(default_factory=dict)  # for the targets, by key
    pinned: list[Server] = field(default_factory=list)
    _servers: Servers | None = None
    _cluster: bed.Cluster | None = None

    @property
    def servers(self) -> Servers:
        """Starts servers that are called directly."""
        if self._servers is None:
            self._servers = self.stack.enter_context(Servers(self.directory / "servers", TinyCA()))
        return self._servers

    @property
    def cluster(self) -> bed.Cluster:
        """A control plane, with JobSet's controller on the servers' core; started when it is first needed."""
        if self._cluster is None:
            report.say("starting a control plane")
            self._cluster = self.stack.enter_context(bed.Cluster(self.directory / "cluster"))
            with machine.pinned(machine.cores()[0]):
                controllers.start(self._cluster, controllers.JOBSET)
        return self._cluster

    def compared(self) -> list[Server]:
        """All servers, on the servers' core; in a full run JobSet's own webhook is one of them."""
        if not self.pinned:
            core, _ = machine.cores()
            self.pinned = [self.servers.start(name, core) for name in servers.NAMES]
            if not self.quick:
                process, ca = self.cluster.process("jobset"), self.cluster.directory / "ca.crt"
                self.pinned.append(servers.of_jobset(self.cluster.mutating(), process, ca))
        return self.pinned

    def stop_compared(self) -> None:
        """Stop them, so that they do not disturb what is measured next."""
        for server in self.pinned:
            if server.name != "jobset":
                self.servers.stop(server)
        self.pinned = []

    def measure(self, key: str, value: float, *figures: Figure) -> None:
        self.measured[key] = Measured(value, any(figure.noisy for figure in figures))


def process(run: Run) -> None:
    """`admit` in this process: by review, and by stage."""
    rounds = 7 if run.quick else inprocess.ROUNDS
    by_review = inprocess.reviews_figures(rounds)
    sizes = {name: f"{len(reviews.load(name)):,}" for name in by_review}
    report.rows("admit, us of CPU time", ["bytes", "us"], {n: (sizes[n], f) for n, f in by_review.items()})
    stages = {name: inprocess.stages(name, rounds) for name in ("jobset-pod", "jobset-50")}
    lines = {stage: tuple(figures[stage] for figures in stages.values()) for stage in stages["jobset-pod"]}
    report.rows("admit by stage, us", list(stages), lines)
    run.found["process"] = {"admit": by_review, "stages": stages}
    run.measure("pod", by_review["jobset-pod"].median, by_review["jobset-pod"])
    run.measure("plain", by_review["plain-pod"].median, by_review["plain-pod"])
    run.measure("jobset", by_review["jobset-50"].median, by_review["jobset-50"])


def tls(run: Run) -> None:
    """Throughput and latency on persistent connections."""
    connections = (16,) if run.quick else overtls.CONNECTIONS
    rounds, seconds = (3, 1.0) if run.quick else (3, 2.0)
    table = overtls.compare(run.compared(), run.directory, connections, rounds=rounds, seconds=seconds)
    for count, rows in table.items():
        _show(f"TLS, {count} connections, one core", rows)
    run.found["tls"] = table
    for peer, row in table[16].items():
        if peer != "accel":
            ours = table[16]["accel"].rate
            run.measure(f"tls/{peer}", ratio(ours, row.rate), ours, row.rate)
            run.measure(f"cpu/{peer}", ratio(row.cpu, table[16]["accel"].cpu), ours, row.cpu)
    nothing, floor = table[16]["read"].rate, table[16]["floor"].rate
    run.measure("read/floor", ratio(nothing, floor), nothing, floor)
    if "jobset" in table[16]:
        theirs = table[16]["jobset"].rate
        run.measure("read/jobset", ratio(nothing, theirs), nothing, theirs)
    if 64 in table:
        ours, theirs = table[64]["accel"].p99, table[64]["go"].p99
        run.measure("p99/go", ratio(ours, theirs), ours, theirs)


def _show(title: str, rows: dict[str, overtls.Row]) -> None:
    columns = ["calls/s", "p50 us", "p99 us", "us of CPU/call", "MiB", "load's share of its core"]
    report.rows(title, columns, {n: (r.rate, r.p50, r.p99, r.cpu, r.rss, r.client) for n, r in rows.items()})


def connect(run: Run) -> None:
    """A new connection with a full handshake for every call."""
    table = overtls.compare(run.compared(), run.directory, (16,), rounds=3, seconds=2.0, reconnect=True)
    _show("TLS, a new connection for every call, 16 at a time", table[16])
    run.found["connect"] = table
    ours, theirs = table[16]["accel"].rate, table[16]["go"].rate
    run.measure("connect/go", ratio(ours, theirs), ours, theirs)


def memory(run: Run) -> None:
    """Resident memory over many calls."""
    run.stop_compared()
    found = overtls.memory(run.servers, run.directory)
    report.rows(
        "Resident MiB of serve",
        ["at start", "after 20k", "40k", "60k", "80k", "100k calls"],
        {"accel": [short(f) for f in found]},
    )
    run.found["memory"] = found
    run.measure("memory", found[-1])
    run.measure("memory/growth", found[-1] - found[-3])


def start(run: Run) -> None:
    """Time from the start of a process until it is ready."""
    run.stop_compared()
    found = overtls.starts(run.servers, servers.NAMES)
    report.rows("Start until ready, s", ["s"], {name: (figure,) for name, figure in found.items()})
    run.found["start"] = found
    run.measure("start", found["accel"].median, found["accel"])


def growth(run: Run) -> None:
    """How the cost grows with the number of containers, replicated jobs and catalogue entries."""
    found = {
        "containers": inprocess.sized((1, 10, 50, 75, 100), inprocess.pod_of),
        "replicated": inprocess.sized((1, 10, 25, 40, 50), inprocess.jobset_of),
        "catalogue": inprocess.catalogues((100, 1000, 10000)),
    }
    for name, figures in found.items():
        report.rows(f"admit by number of {name}, us", [f"{n:,}" for n in figures], {"accel": tuple(figures.values())})
    run.found["growth"] = found
    for name in ("containers", "replicated"):
        run.measure(f"growth/{name}", inprocess.slope(found[name]), *found[name].values())
    entries = found["catalogue"]
    run.measure("growth/catalogue", ratio(entries[10000], entries[100]), *entries.values())


def api(run: Run) -> None:
    """Pods through the API server, as a dry run."""
    run.stop_compared()
    here, namespaces = _registered(run)
    rows = incluster.throughput(run.cluster, here, namespaces)
    columns = ["pods/s", "p50 ms", "p99 ms", "webhook, mean ms"]
    title = f"Pods through the API server, dry run, {incluster.CLIENTS} clients"
    report.rows(title, columns, {n: (r.rate, r.p50, r.p99, r.webhook) for n, r in rows.items()})
    run.found["api"] = rows
    for peer in ("floor", "go", "cel", "none"):
        ours, theirs = rows["accel"].rate, rows[peer].rate
        run.measure(f"api/{peer}", ratio(ours, theirs), ours, theirs)


def burst(run: Run) -> None:
    """A JobSet of a thousand Pods."""
    run.stop_compared()
    here, _ = _registered(run)
    incluster.nodes(run.cluster)
    found = incluster.bursts(run.cluster, here)
    limit = f"client-side limit {bed.CLIENT_LIMIT}/s"
    lines = {name: (_of(b, "created"), _of(b, "running"), str(sum(x.failures for x in b))) for name, b in found.items()}
    report.rows(f"A JobSet of {incluster.PODS} Pods, {limit}", ["s until created", "s until running", "refused"], lines)
    run.found["burst"] = found
    ours, floor, none = (lines[name][0] for name in incluster.BURST_PEERS)
    run.measure("burst/floor", ratio(ours, floor), ours, floor)
    run.measure("burst/none", ratio(ours, none), ours, none)
    run.measure("burst/failures", sum(x.failures for x in found["accel"]))


def _of(bursts: list[incluster.Burst], name: str) -> Figure:
    return Figure("s", [getattr(one, name) for one in bursts], [one.others for one in bursts])


def _registered(run: Run) -> tuple[list[Server], dict[str, str]]:
    """The servers that the API server calls, on any core, and each peer's namespace; started once per run."""
    if "registered" not in run.found:
        names = ("accel", "floor", "go")
        behind = run.stack.enter_context(Servers(run.directory / "behind", run.cluster.ca, *bed.service_names(names)))
        here = [behind.start(name) for name in names]
        run.found["registered"] = (here, bed.register(run.cluster, here))
    registered: tuple[list[Server], dict[str, str]] = run.found["registered"]
    return registered


LEVELS: dict[str, Callable[[Run], None]] = {
    "process": process,
    "growth": growth,
    "start": start,
    "tls": tls,
    "connect": connect,
    "memory": memory,
    "api": api,
    "burst": burst,
}
QUICK = ("process", "tls")


def run(levels: tuple[str, ...], quick: bool) -> Run:
    """Run the levels and return the results. Everything that was started is stopped."""
    with tempfile.TemporaryDirectory(prefix="accel-bench-") as folder, ExitStack() as stack:
        one = Run(quick, Path(folder), stack)
        for level in levels:
            report.say(f"\n{level}: load average {machine.load_average()}")
            LEVELS[level](one)
        one.found.pop("registered", None)
        return one


__all__ = ["LEVELS", "QUICK", "Run", "run"]
