"""What RocksDB says of itself, for Prometheus: asked once for each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cutwater.views.store.rocksdb_tuning import Figures

_GAUGES = {
    "memory_max_bytes": "What cached blocks and write buffers may take together (CUTWATER_VIEW_MEMORY_MB).",
    "memory_bytes": "What they take, and what open files hold besides.",
    "buffers_bytes": "Of that the write buffers.",
    "files_bytes": "RocksDB's sorted files, those that only readers of older milestones keep included.",
    "live_bytes": "Of those the files that the newest milestone consists of.",
    "amplification": "Bytes that were written into sorted files for each byte put, since the start.",
}
_COUNTERS = {
    "cache_hits": "Blocks that a read found in memory.",
    "cache_misses": "Blocks that it had to take from the disk.",
    "put_bytes": "Bytes written to the table, or loaded into it as files.",
    "logged_bytes": "Bytes written to RocksDB's log.",
    "flushed_bytes": "Bytes written into sorted files from memory.",
    "compacted_bytes": "Bytes written into sorted files from others.",
}


class StoreMetrics(Collector):
    """The figures of one store; nothing where it has none at the moment."""

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
