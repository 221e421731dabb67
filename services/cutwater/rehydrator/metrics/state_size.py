"""The size of the view's state: counted in the background, and limited if the job has max_bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cutwater.adapters.runtime.clock import now_ms
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.size_census import Size
from cutwater.core.util.timestamps import iso
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.follow.size_census import Census, CensusResult
from cutwater.views.follow.size_limit import SizeLimit
from cutwater.views.store.store import Store

SHARDS_SHOWN = 20
"""Only the largest shards are metrics: a job may have 65,536. `GET /v1/sizes` lists all that hold rows."""

Evict = Callable[[Milestone], int | None]


class Sized:
    """The census of one view, and the eviction that depends on it."""

    def __init__(self, job: Job, store: Store, every_ms: int, metrics: Metrics, log: Any) -> None:
        self.census = Census(store, job.shards, every_ms, now_ms, log)
        self._store = store
        self._max_bytes = job.max_bytes
        self.evict: Evict = lambda _: None
        """For the applier: the time from which windows are kept."""
        if job.max_bytes is not None:
            self.evict = SizeLimit(store, job.max_bytes, self.census, metrics, log, job.overlap_ms).lower_ms

    def answer(self) -> dict[str, Any]:
        """Return the last census, for JSON. Raises UnavailableError before the first."""
        counted = self.census.counted
        if counted is None:
            raise UnavailableError("the first census is not finished: try again in a moment")
        return sizes_plain(counted, self._store.segment_ms, self._max_bytes)


def sizes_plain(counted: CensusResult, segment_ms: int, max_bytes: int | None) -> dict[str, Any]:
    """Return a census as JSON and CLI show it."""
    sizes = counted.sizes
    return {
        "counted": iso(counted.counted_ms),
        "seconds": round(counted.seconds, 3),
        **_plain(sizes.total),
        "max_bytes": max_bytes,
        "segments": [
            {"ends_after": iso(number * segment_ms), "ends_up_to": iso((number + 1) * segment_ms), **_plain(size)}
            for number, size in sorted(sizes.segments.items())
        ],
        "shards": [{"shard": shard, **_plain(size)} for shard, size in sorted(sizes.shards.items())],
        "largest_keys": [{"key": one.key, "bytes": one.bytes} for one in sizes.largest],
        "largest_keys_error_bytes": sizes.error_bytes,
    }


def _plain(size: Size) -> dict[str, int]:
    return {"rows": size.rows, "bytes": size.bytes}


class SizeMetrics(Collector):
    """The last census, for Prometheus: a bounded number of series, without names of keys."""

    def __init__(self, counted: Callable[[], CensusResult | None]) -> None:
        self._counted = counted

    def collect(self) -> Iterator[Metric]:
        rows = GaugeMetricFamily("cutwater_view_state_rows", "Rows of the state in the last census.")
        size = GaugeMetricFamily("cutwater_view_state_bytes", "Bytes of keys and values in the last census.")
        at = GaugeMetricFamily("cutwater_view_census_timestamp_seconds", "When the last census finished.")
        took = GaugeMetricFamily(
            "cutwater_view_census_seconds", "Duration of the last census, including its pauses."
        )
        shards = GaugeMetricFamily(
            "cutwater_view_shard_bytes", f"Bytes of the {SHARDS_SHOWN} largest shards.", labels=["shard"]
        )
        keys = GaugeMetricFamily(
            "cutwater_view_key_bytes", "Bytes of the largest keys; GET /v1/sizes names them.", labels=["rank"]
        )
        counted = self._counted()
        if counted is not None:
            sizes = counted.sizes
            rows.add_metric([], sizes.total.rows)
            size.add_metric([], sizes.total.bytes)
            at.add_metric([], counted.counted_ms / 1000)
            took.add_metric([], counted.seconds)
            largest = sorted(sizes.shards.items(), key=lambda one: (-one[1].bytes, one[0]))
            for shard, found in largest[:SHARDS_SHOWN]:
                shards.add_metric([str(shard)], found.bytes)
            for rank, key in enumerate(sizes.largest, 1):
                keys.add_metric([str(rank)], key.bytes)
        yield from (rows, size, at, took, shards, keys)
