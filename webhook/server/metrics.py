"""The metrics of this replica, and how Prometheus reads them.

Counters are plain integers: all of them are updated on one event loop, so there are no locks. Scrapes are answered on
another thread, which copies what may grow meanwhile. The Prometheus library is imported by the first scrape.
Labels come only from closed sets, never from user text.
"""

import sys
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from webhook import __version__
from webhook.core.admission import Answer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Upper bounds in seconds. The API server's own histogram starts at 5 ms; a webhook should be below that."""

CONTENT_TYPE = b"content-type: text/plain; version=0.0.4; charset=utf-8\r\n"


def prepare() -> None:
    """Import now, in a thread, what would otherwise block the first scrape."""
    import prometheus_client  # noqa: F401


class Metrics:
    """Every counter and gauge of one replica."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, str, str, bool], int] = {}
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0
        self.received = 0
        self.sent = 0
        self.in_flight = 0  # these five as of the latest sweep
        self.connections = 0
        self.pending = 0
        self.accepted = 0
        self.established = 0
        self.refused: dict[str, int] = {}
        self.ready = False
        self.certificate_not_after = 0.0
        self.certificate_reloads = {"success": 0, "failure": 0}
        self.config_sha256 = ""
        self.config_loaded_at = 0.0
        self.config_intact = True
        self.config_reloads = {"success": 0, "failure": 0}
        self.ca_bundle_matches: bool | None = None

    def decided(self, answer: Answer, seconds: float, received: int) -> None:
        """One review was answered, `seconds` after its headers arrived."""
        key = (answer.kind, answer.operation, answer.outcome, answer.code, answer.dry_run)
        self.requests[key] = self.requests.get(key, 0) + 1
        self.buckets[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds
        self.received += received
        self.sent += len(answer.body)

    def refuse(self, reason: str) -> None:
        """A client was rejected before a review could be read."""
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def render(self) -> bytes:
        """The body of `/metrics`."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)

    @cached_property
    def _registry(self) -> "CollectorRegistry":
        from prometheus_client import CollectorRegistry, ProcessCollector

        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        return registry

    def collect(self) -> Iterator["Metric"]:
        """All metric families, for the Prometheus library."""
        yield from self._calls()
        yield from self._life()

    def _calls(self) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        requests = CounterMetricFamily(
            "accel_webhook_requests",
            "Reviews answered.",
            labels=("kind", "operation", "result", "reason", "dry_run"),
        )
        for (kind, operation, outcome, code, dry_run), count in self.requests.copy().items():
            requests.add_metric((kind, operation, outcome, code, "true" if dry_run else "false"), count)
        yield requests
        duration = HistogramMetricFamily(
            "accel_webhook_request_duration_seconds", "From a review's headers to its response."
        )
        duration.add_metric((), self._cumulative(), self.seconds)
        yield duration
        refused = CounterMetricFamily(
            "accel_webhook_rejected",
            "Calls and connections rejected before a review was read.",
            labels=("reason",),
        )
        for reason, count in self.refused.copy().items():
            refused.add_metric((reason,), count)
        yield refused
        yield CounterMetricFamily("accel_webhook_request_bytes", "Bytes of reviews received.", value=self.received)
        yield CounterMetricFamily("accel_webhook_response_bytes", "Bytes of responses sent.", value=self.sent)
        yield GaugeMetricFamily("accel_webhook_in_flight", "Calls not answered yet.", value=self.in_flight)
        yield GaugeMetricFamily("accel_webhook_connections", "Open HTTPS connections.", value=self.connections)
        yield GaugeMetricFamily(
            "accel_webhook_connections_pending", "TCP connections that have not finished TLS.", value=self.pending
        )
        yield CounterMetricFamily(
            "accel_webhook_connections_accepted", "TCP connections accepted.", value=self.accepted
        )
        yield CounterMetricFamily(
            "accel_webhook_handshakes",
            "TLS handshakes completed. If far below connections accepted, clients do not trust our certificate.",
            value=self.established,
        )

    def _cumulative(self) -> list[tuple[str, float]]:
        total, pairs = 0, []
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self.buckets, strict=True):
            total += count
            pairs.append((bound, float(total)))
        return pairs

    def _life(self) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        yield GaugeMetricFamily("accel_webhook_ready", "1 while /readyz succeeds.", value=self.ready)
        yield GaugeMetricFamily(
            "accel_webhook_cert_not_after_seconds",
            "When the serving certificate expires, Unix time; 0 before there is one.",
            value=self.certificate_not_after,
        )
        yield GaugeMetricFamily(
            "accel_webhook_config_reload_success",
            "0 while the newest site config is refused.",
            value=self.config_intact,
        )
        yield GaugeMetricFamily(
            "accel_webhook_config_reload_timestamp_seconds",
            "When the site config in use was loaded, Unix time.",
            value=self.config_loaded_at,
        )
        for name, what, counts in (
            ("cert", "Changed certificate files", self.certificate_reloads),
            ("config", "Changed site config files", self.config_reloads),
        ):
            family = CounterMetricFamily(f"accel_webhook_{name}_reloads", f"{what}, by result.", labels=("result",))
            for result, count in counts.items():
                family.add_metric((result,), count)
            yield family
        if self.ca_bundle_matches is not None:
            yield GaugeMetricFamily(
                "accel_webhook_cabundle_match",
                "1 while every webhook entry trusts our CA, as last known.",
                value=self.ca_bundle_matches,
            )
        yield _info("config_info", "The site config in use.", {"sha256": self.config_sha256})
        python = ".".join(map(str, sys.version_info[:3]))
        yield _info("build_info", "This program.", {"version": __version__, "python": python})


def _info(name: str, what: str, labels: dict[str, str]) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(f"accel_webhook_{name}", what, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), 1)
    return family
