"""The plain-HTTP port: is the process alive, may it be sent calls, what has it counted.

Readiness is what was last known. Nothing here asks the network: a replica that cannot reach the API server
still answers calls from one, and taking it out of the Service would turn a small outage into a large one.
"""

from datetime import datetime
from typing import Any

from webhook.server.app import Receive, Scope, Send
from webhook.server.metrics import CONTENT_TYPE, Metrics

_TEXT = b"text/plain; charset=utf-8"


class Health:
    """What stands between this replica and its readiness, kept up to date by those who find out."""

    def __init__(self) -> None:
        self.draining = False
        self.config_loaded = False
        self.listening = False
        self.certificate_not_after: datetime | None = None
        self.state_problem = ""  # why the state file does not say "ready"; empty when it does, or is not asked

    def problems(self, now: datetime) -> list[str]:
        """Why the replica is not ready at `now`; nothing when it is."""
        found = []
        if self.draining:
            found.append("stopping")
        if not self.config_loaded:
            found.append("no site config loaded yet")
        if self.certificate_not_after is None:
            found.append("no usable certificate yet")
        elif self.certificate_not_after <= now:
            found.append(f"the certificate ended {self.certificate_not_after.isoformat()}")
        elif not self.listening:
            found.append("not listening yet")
        if self.state_problem:
            found.append(self.state_problem)
        return found


class Operations:
    """The ASGI application of the plain-HTTP port."""

    def __init__(self, health: Health, metrics: Metrics, clock: Any) -> None:
        self._health = health
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        status, body, media = self._answer(scope["path"])
        headers = [(b"content-type", media), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, path: str) -> tuple[int, bytes, bytes]:
        if path == "/readyz":
            problems = self._health.problems(self._clock())
            text = "\n".join(f"not ready: {problem}" for problem in problems) if problems else "ready"
            return (503 if problems else 200), text.encode() + b"\n", _TEXT
        if path in ("/livez", "/healthz"):
            return 200, b"alive\n", _TEXT
        if path == "/metrics":
            self._metrics.ready = not self._health.problems(self._clock())
            return 200, self._metrics.render(), CONTENT_TYPE
        return 404, b"not found; here are /livez, /readyz and /metrics\n", _TEXT
