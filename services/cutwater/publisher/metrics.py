"""The publisher's Prometheus metrics. Durations in seconds."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cutwater.core.protocol.records import Milestone

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        here: dict[str, Any] = {"registry": self.registry, "namespace": "cutwater", "subsystem": "publisher"}
        self._rows = Counter("rows", "Rows written to the output.", **here)
        self._corrections = Counter(
            "corrections", "Rows written as corrections or tombstones: they change published rows.", **here
        )
        self._transactions = Counter("transactions", "Committed transactions: one per milestone or part.", **here)
        self._sequence = Gauge("sequence", "Sequence of the newest milestone published completely.", **here)
        self._behind = Histogram(
            "delay", "Time from a milestone's commit to its output.", unit="seconds", buckets=_SECONDS, **here
        )
        self._backlog = Gauge("backlog_milestones", "Milestones read but not published yet.", **here)

    def wrote(self, rows: int, corrections: int) -> None:
        self._rows.inc(rows)
        self._corrections.inc(corrections)
        self._transactions.inc()

    def published(self, milestone: Milestone, now_ms: int) -> None:
        self._sequence.set(milestone.sequence)
        self._behind.observe(max(0, now_ms - milestone.committed_ms) / 1000)

    def backlog(self, milestones: int) -> None:
        self._backlog.set(milestones)
