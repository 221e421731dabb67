"""What a run comes to: plain values, as the result file has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CHANGELOG, READABLE, VIEW = "changelog", "readable", "view"
APPENDED_READABLE = "changelog to readable"


@dataclass(frozen=True)
class LatencyRun:
    """One contender at one rate, in one pair. Latencies in ms, of the measured events only."""

    contender: str
    pair: int
    rate: int
    events: int
    delays: Mapping[str, Mapping[str, float]]
    """From the moment an event was due until it was there: percentiles by place."""
    curves: Mapping[str, list[float]] = field(repr=False)
    """The distributions as evenly spaced quantiles."""
    start_s: float
    """Until the contender said that it runs; the warm-up comes after."""
    cpu_s: float
    """CPU time of the contender's processes while the measured events came; the broker's is apart."""
    broker_cpu_s: float
    memory_mb_peak: float
    load: float
    """Of the machine, over the last minute of the run: above its cores, something else ran."""
    generator_late_ms: Mapping[str, float]
    """How late the generator was: its stalls are part of the latencies."""
    exact: bool
    fault: str | None = None
    epoch_ms: float | None = None
    """Median time between two epochs' beginnings; only where there are epochs."""
    steps: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    commits: Mapping[str, float] = field(default_factory=dict)
    """What the contender itself tells of its commits."""

    def of(self, place: str, percentile: str) -> float | None:
        """A latency, or None where this contender has no such place."""
        return self.delays[place][percentile] if place in self.delays else None

    @property
    def p99_in_epochs(self) -> float | None:
        """Event to readable milestone at p99, in epoch times."""
        p99 = self.of(READABLE, "p99")
        return round(p99 / self.epoch_ms, 2) if p99 and self.epoch_ms else None


def better(ours: float | None, theirs: float | None) -> float | None:
    """How many times shorter ours is."""
    return theirs / ours if ours and theirs else None


def plain(run: LatencyRun) -> dict[str, Any]:
    """As the result file has it."""
    return {**vars(run), "p99_in_epochs": run.p99_in_epochs}
