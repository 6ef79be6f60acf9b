"""The performance targets of the project, and whether a run meets them. Pure.

Ratios are between figures of the same run; absolute values are meaningful only on the machine that the report names.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One target: `low` or `high` is the bound of the value; without one, the value is only reported."""

    key: str
    what: str
    unit: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def text(self) -> str:
        if self.low is not None:
            return f">= {self.low:g}{self.unit}"
        return f"<= {self.high:g}{self.unit}" if self.high is not None else "reported"

    def verdict(self, value: float) -> str:
        if self.low is None and self.high is None:
            return "reported"
        kept = (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        return "pass" if kept else "falls short"


TARGETS = (
    Target("pod", "admit, TPU Pod of a JobSet", " us", high=40),
    Target("plain", "admit, Pod without an annotation", " us", high=15),
    Target("jobset", "admit, JobSet of 50 replicated jobs; at most fifty times one", " us", high=2600),
    Target("tls/go", "calls/s on one core, TLS, 16 connections, against Go (a)", "x", low=8),
    Target("tls/jobset", "the same, against JobSet's own webhook (e)", "x", low=8),
    Target("tls/textbook", "the same, against the textbook in Python (b)", "x"),
    Target("tls/floor", "the same, against the floor (c)", "x", low=0.8),
    Target("read/floor", "our server deciding nothing (f): only reads and writes, against (c)", "x"),
    Target("read/jobset", "the same, against JobSet's own webhook (e): an upper bound", "x"),
    Target("cpu/go", "CPU time of a call, Go's (a) over ours: less disturbed by other processes", "x"),
    Target("cpu/jobset", "the same, JobSet's own webhook (e) over ours", "x"),
    Target("cpu/floor", "the same, the floor (c) over ours", "x"),
    Target("p99/go", "p99 at 64 connections, against Go (a)", "x", high=0.25),
    Target("connect/go", "new connections/s, against Go (a)", "x"),
    Target("api/floor", "through the API server: pods/s against the floor (c)", "x", low=0.95),
    Target("api/go", "the same, against Go (a)", "x", low=1.1),
    Target("api/cel", "the same, against the CEL policy (d); aim: 1", "x"),
    Target("api/none", "the same, against no webhook", "x"),
    Target("burst/floor", "burst of 1,024 Pods: time until all are created, against the floor (c)", "x", high=1.05),
    Target("burst/failures", "the same: Pods that were refused", "", high=0),
    Target("burst/none", "the same: time against no webhook", "x"),
    Target("memory", "resident memory of serve after 100,000 calls", " MiB", high=70),
    Target("memory/growth", "the same: growth over the last 40,000 calls", " MiB", high=1),
    Target("start", "start until ready", " s", high=1),
    Target("growth/containers", "containers 1 to 100: cost of one more, upper half against lower", "x", high=1.25),
    Target("growth/replicated", "replicated jobs 1 to 50: the same", "x", high=1.25),
    Target("growth/catalogue", "catalogue of 10,000 entries against 100", "x", high=1.15),
)


@dataclass(frozen=True)
class Measured:
    """A value for a target, and whether other processes disturbed its measurement."""

    value: float
    noisy: bool = False
