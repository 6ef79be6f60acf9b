"""Reads counters and histograms out of the API server's /metrics text."""

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

WEBHOOK_DURATION = "apiserver_admission_webhook_admission_duration_seconds"


@dataclass(frozen=True)
class Sample:
    """One line: its name (histograms end in _bucket, _count, _sum), labels and value."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Histogram:
    """Observations: how many, their sum, and for each upper bound (seconds) how many were at most that."""

    count: int
    sum: float
    buckets: dict[float, int]

    def above(self, bound: float) -> int:
        """Return how many were over the bound, which must be one of the buckets'."""
        return self.count - self.buckets[bound]


def samples(text: str, metric: str, **labels: str) -> list[Sample]:
    """Return the metric's samples that carry these label values; parsing all would take seconds."""
    lines = [line for line in text.splitlines() if line.startswith(metric)]
    families = text_string_to_metric_families("\n".join(lines) + "\n")
    found = (Sample(s.name, dict(s.labels), s.value) for family in families for s in family.samples)
    return [s for s in found if belongs(s.name, metric) and labels.items() <= s.labels.items()]


def belongs(name: str, metric: str) -> bool:
    """Whether the sample's name is the metric's own, not that of a longer-named metric."""
    return name in (metric, f"{metric}_bucket", f"{metric}_count", f"{metric}_sum")


def histogram(found: Iterable[Sample]) -> Histogram:
    """Add up one histogram's samples over all label values but the bound."""
    count, total, buckets = 0, 0.0, dict[float, int]()
    for sample in found:
        if sample.name.endswith("_count"):
            count += int(sample.value)
        elif sample.name.endswith("_sum"):
            total += sample.value
        elif sample.name.endswith("_bucket"):
            bound = float(sample.labels["le"])
            buckets[bound] = buckets.get(bound, 0) + int(sample.value)
    return Histogram(count, total, dict(sorted(buckets.items())))
