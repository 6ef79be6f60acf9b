"""A figure that is measured several times: its median and its spread. Pure."""

from dataclasses import dataclass, field
from statistics import median

from benchmarks.machine import QUIET


@dataclass
class Figure:
    """Rounds of one measurement, in one unit."""

    unit: str
    rounds: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)  # per round, the share of the machine's CPU time that others used

    def add(self, value: float, others: float = 0.0) -> None:
        self.rounds.append(value)
        self.others.append(others)

    @property
    def median(self) -> float:
        return median(self.rounds)

    @property
    def noisy(self) -> bool:
        """Whether others used the machine in most of its rounds."""
        return bool(self.others) and median(self.others) > QUIET

    def text(self) -> str:
        """Median and half the distance between the extremes: 1,074 ±3%."""
        half = (max(self.rounds) - min(self.rounds)) / 2
        spread = f" ±{half / self.median:.0%}" if len(self.rounds) > 1 and self.median else ""
        return f"{short(self.median)}{spread}{' ~' if self.noisy else ''}"


def short(value: float) -> str:
    """The value with three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratios(ours: Figure, theirs: Figure) -> Figure:
    """The ratio of each round, from which disturbances of both sides cancel out."""
    return Figure("x", [a / b for a, b in zip(ours.rounds, theirs.rounds, strict=True) if b])


def ratio(ours: Figure, theirs: Figure) -> float:
    """The median of the rounds' ratios, which a single disturbed round does not change."""
    return ratios(ours, theirs).median
