"""RocksDB's own figures for Prometheus, read once per scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cutwater.views.store.rocksdb_tuning import Figures

_GAUGES = {
    "memory_max_bytes": "Limit of block cache and write buffers together (CUTWATER_VIEW_MEMORY_MB).",
    "memory_bytes": "Memory of block cache, write buffers and open files.",
    "buffers_bytes": "Memory of the write buffers.",
    "files_bytes": "Size of RocksDB's sorted files, including those kept for readers of older milestones.",
    "live_bytes": "Size of the sorted files of the newest milestone.",
    "amplification": "Bytes written into sorted files per byte put, since the start.",
}
_COUNTERS = {
    "cache_hits": "Blocks that reads found in memory.",
    "cache_misses": "Blocks that reads loaded from disk.",
    "put_bytes": "Bytes written to the table, or loaded into it as files.",
    "logged_bytes": "Bytes written to RocksDB's log.",
    "flushed_bytes": "Bytes flushed from memory into sorted files.",
    "compacted_bytes": "Bytes written into sorted files by compaction.",
}


class StoreMetrics(Collector):
    """The figures of one store; none if it has none at the moment."""

    def __init__(self, figures: Callable[[], Figures | None]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        figures = self._figures()
        for name, text in _GAUGES.items():
            gauge = GaugeMetricFamily(f"cutwater_view_store_{name}", text)
            if figures is not None:
                gauge.add_metric([], getattr(figures, name))
            yield gauge
        for name, text in _COUNTERS.items():
            counter = CounterMetricFamily(f"cutwater_view_store_{name}", text)
            if figures is not None:
                counter.add_metric([], getattr(figures, name))
            yield counter
