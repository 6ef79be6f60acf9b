"""Certificate metrics, and whether the loop is still running, over plain HTTP for Prometheus and the kubelet."""

import socket
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, generate_latest

from certs.state import State


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        gauge = self._gauge
        self._leaf = gauge("accel_certs_leaf_not_after_seconds", "When the serving certificate expires, Unix time.")
        self._ca = gauge("accel_certs_authority_not_after_seconds", "When the CA expires, Unix time.")
        self._bundle = gauge("accel_certs_cabundle_match", "1 while every webhook entry trusts our certificate.")
        self._rotating = gauge("accel_certs_rotating", "1 while a new CA waits to sign.")
        self._rotations = gauge("accel_certs_rotations", "CAs replaced so far, by all replicas together.")
        self._clock = gauge(
            "accel_certs_clock_ahead_seconds", "How far our clock is ahead of the API server's; 0 below 60."
        )
        self.steps = Counter(
            "accel_certs_steps", "What this replica did, by action.", ["action"], registry=self.registry
        )
        self.failures = Counter(
            "accel_certs_failures", "Passes that ended in an error, by kind.", ["kind"], registry=self.registry
        )
        for kind in ("conflict", "unreachable", "refused", "file", "unexpected"):
            self.failures.labels(kind)

    def show(self, state: State, clock_ahead: timedelta) -> None:
        """Update from the state."""
        self._clock.set(clock_ahead.total_seconds())
        self._leaf.set(_unix(state.leafNotAfter))
        self._ca.set(_unix(state.authorityNotAfter))
        self._bundle.set(state.ready)
        self._rotating.set(state.rotating)
        self._rotations.set(state.rotations)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)


def serve(host: str, port: int, metrics: Metrics, alive: Callable[[], bool]) -> int:
    """Serve /metrics and /healthz from a daemon thread; returns the port that was bound.

    Raises OSError if it cannot be bound.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds for a client that sends nothing

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(metrics.registry))
            elif self.path == "/healthz":
                well = alive()
                self._answer(200 if well else 503, "text/plain", b"ok\n" if well else b"the loop is stalled\n")
            else:
                self._answer(404, "text/plain", b"/metrics, /healthz\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Do not log probes."""

    server = _Server((host, port), Handler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return int(server.server_address[1])


class _Server(ThreadingHTTPServer):
    """Listens on all IPv4 and IPv6 addresses if no host is given: a kubelet may probe over either."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        both = not address[0] and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if both or ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6 and not self.server_address[0]:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def _unix(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() if moment else 0.0
