"""One figure, measured several times: its median, and how far apart the rounds were. Pure."""

from dataclasses import dataclass, field
from statistics import median

from benchmarks.machine import QUIET


@dataclass
class Figure:
    """Rounds of one measurement, in one unit."""

    unit: str
    rounds: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)  # for each round, the share of the machine that others used

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
    """Three figures that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratios(ours: Figure, theirs: Figure) -> Figure:
    """The ratio of each round: what disturbed both sides of it is not in it."""
    return Figure("x", [a / b for a, b in zip(ours.rounds, theirs.rounds, strict=True) if b])


def ratio(ours: Figure, theirs: Figure) -> float:
    """The median of the ratios of each round, which one disturbed round does not move."""
    return ratios(ours, theirs).median
