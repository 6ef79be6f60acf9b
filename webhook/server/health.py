"""The plain-HTTP port: liveness, readiness and metrics.

Readiness is based on the last known state. Nothing here uses the network: a replica that cannot reach the API server
still answers calls from one, and taking it out of the Service would turn a small outage into a large one.
"""

from collections.abc import Callable
from datetime import datetime

from webhook.server.metrics import CONTENT_TYPE, Metrics
from webhook.server.request import TEXT, Head, Reply
from webhook.server.watchdog import UNREADY_SECONDS, Watchdog


class Health:
    """What keeps this replica from being ready, updated by the modules that find out."""

    def __init__(self) -> None:
        self.draining = False
        self.config_loaded = False
        self.listening = False
        self.certificate_not_after: datetime | None = None
        self.state_problem = ""  # why the state file does not say "ready"; empty if it does, or if there is none

    def problems(self, now: datetime) -> list[str]:
        """Why the replica is not ready at `now`; empty if it is."""
        found = []
        if self.draining:
            found.append("stopping")
        if not self.config_loaded:
            found.append("no site config loaded yet")
        if self.certificate_not_after is None:
            found.append("no usable certificate yet")
        elif self.certificate_not_after <= now:
            found.append(f"the certificate expired {self.certificate_not_after.isoformat()}")
        elif not self.listening:
            found.append("not listening yet")
        if self.state_problem:
            found.append(self.state_problem)
        return found


class Operations:
    """The application of the plain-HTTP port."""

    def __init__(self, health: Health, metrics: Metrics, clock: Callable[[], datetime], watchdog: Watchdog) -> None:
        self._health = health
        self._metrics = metrics
        self._clock = clock
        self._watchdog = watchdog

    def early(self, head: Head) -> Reply:
        """Answers every request: no body is read."""
        if head.path == b"/readyz":
            problems = self._problems()
            text = "".join(f"not ready: {problem}\n" for problem in problems) or "ready\n"
            return Reply(503 if problems else 200, text.encode(), TEXT)
        if head.path in (b"/livez", b"/healthz"):
            return Reply(200, b"alive\n", TEXT)
        if head.path == b"/metrics":
            self._metrics.ready = not self._problems()
            return Reply(200, self._metrics.render(), CONTENT_TYPE)
        return Reply(404, b"not found; here are /livez, /readyz and /metrics\n", TEXT)

    def _problems(self) -> list[str]:
        stalled = self._watchdog.stalled
        problem = [f"the event loop has been stalled for {stalled:.1f} s"] if stalled > UNREADY_SECONDS else []
        return self._health.problems(self._clock()) + problem

    def answer(self, head: Head, _body: bytes) -> Reply:
        """Never called, since `early` answers everything."""
        return self.early(head)
