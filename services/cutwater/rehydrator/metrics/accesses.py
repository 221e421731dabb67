"""The reads of keys and windows at this rehydrator: counted by its routes, for an answer and for Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cutwater.core.query.access_statistics import AccessReport, AccessStatistics
from cutwater.core.state.size_census import short_key
from cutwater.core.util.timestamps import iso

RANKS = 20
"""Most read keys that are metrics, without their names."""


class Accesses(Collector):
    """Any thread counts and reads. A generation that follows goes on with the same counts."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._statistics = AccessStatistics()
        self._reads = 0

    def count(self, key: str, windows_ms: Iterable[int]) -> None:
        """Count one read of a key and of the windows in its answer."""
        name = short_key(key)
        with self._lock:
            self._reads += 1
            self._statistics.count(name, windows_ms, self._now_ms())

    def answer(self) -> dict[str, Any]:
        """Return the most read keys and windows, for JSON."""
        found = self._report()
        return {
            "since": iso(found.since_ms),
            "reads": found.reads,
            "keys": [{"key": one.name, "reads": one.reads} for one in found.keys],
            "keys_error": found.keys_error,
            "windows": [{"window_start": iso(int(one.name)), "reads": one.reads} for one in found.windows],
            "windows_error": found.windows_error,
        }

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            reads = self._reads
        yield CounterMetricFamily("cutwater_view_key_reads", "Reads of keys answered from this view.", value=reads)
        ranks = GaugeMetricFamily(
            "cutwater_view_hot_key_reads",
            "Reads of the most read keys in the last 15 to 30 minutes; GET /v1/reads names them.",
            labels=["rank"],
        )
        for rank, one in enumerate(self._report().keys[:RANKS], 1):
            ranks.add_metric([str(rank)], one.reads)
        yield ranks

    def _report(self) -> AccessReport:
        with self._lock:
            return self._statistics.report(self._now_ms())
