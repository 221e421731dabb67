"""The demonstration's progress, read from the protocol topics, and its live table."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Barrier, Milestone, Start
from cutwater.core.util.text_tables import Table, ranked, table

_COLUMNS = ranked(("events in", "processed", "committed"), "watermark", "view", "epoch", "milestones", "attempt")


@dataclass
class Progress:
    """Events and epochs as processed (barriers) and as committed (milestones)."""

    produced: int = 0
    to_produce: int = 0
    attempts: int = 0
    barrier: Barrier | None = None
    milestone: Milestone | None = None
    milestones: int = 0
    view: str = "-"
    phase: str = "starting"
    changes: int = field(default=0, repr=False)
    """Grows with every change: it distinguishes slow from stuck."""

    @property
    def processed(self) -> int:
        return self.barrier.source_cut.records if self.barrier else 0

    @property
    def committed(self) -> int:
        return self.milestone.source_cut.records if self.milestone else 0

    def table(self, seconds: float) -> Table:
        rate = self.committed / seconds if seconds > 0 else 0.0
        left = (self.to_produce - self.committed) / rate if rate else 0.0
        time = f"{seconds:.0f} s, about {left:.0f} s left"
        title = f"{self.phase}: {self.to_produce:,} events at {rate:,.0f} events/s · {time}"
        watermark = self.milestone.watermark_ms if self.milestone else 0
        row = (
            *(self.produced, self.processed, self.committed),
            f"{datetime.fromtimestamp(watermark / 1000, UTC):%Y-%m-%d %H:%M}" if watermark else "-",
            *(self.view.rpartition(":")[2], self.barrier.epoch if self.barrier else "-"),
            *(self.milestones, self.attempts),
        )
        return table(title, _COLUMNS, [row], hint="a wider terminal shows them")


class Follower:
    def __init__(self, cluster: Cluster, job: str, progress: Progress) -> None:
        self._progress = progress
        self._tails = [Tail(cluster, topics.barriers(job)), Tail(cluster, topics.milestones(job))]

    def update(self) -> None:
        """Read the new records of both topics; waits at most 100 ms."""
        for tail in self._tails:
            for record in tail.poll():
                self._take(record)

    def close(self) -> None:
        for tail in self._tails:
            tail.close()

    def _take(self, record: object) -> None:
        progress = self._progress
        if isinstance(record, Start):
            progress.attempts = max(progress.attempts, record.attempt)
        elif isinstance(record, Barrier):
            progress.barrier = record
        elif isinstance(record, Milestone):
            progress.milestone = record
            progress.milestones += 1
        else:
            return  # hints and heartbeats are no progress
        progress.changes += 1
