"""The size of the view's state: counted in the background, bounded where the job says so, told to whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.size_census import Size
from cutwater.core.util.timestamps import iso
from cutwater.operations.service_main import now_ms
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.follow.size_census import Census, Counted
from cutwater.views.follow.size_limit import Bounding
from cutwater.views.store.store import Store

SHARDS_SHOWN = 20
"""The largest ones as metrics: a job may have 65,536. `GET /v1/sizes` has all that hold anything."""

Evict = Callable[[Milestone], int | None]


class Sized:
    """The census of one view, and what follows from it."""

    def __init__(self, job: Job, store: Store, every_ms: int, metrics: Metrics, log: Any) -> None:
        self.census = Census(store, job.shards, every_ms, now_ms, log)
        self._store = store
        self._max_bytes = job.max_bytes
        self.evict: Evict = lambda _: None
        """For whoever applies milestones: from where on windows are kept."""
        if job.max_bytes is not None:
            self.evict = Bounding(store, job.max_bytes, self.census, metrics, log).lower_ms

    def answer(self) -> dict[str, Any]:
        """What the last census found, as JSON has it. Raises UnavailableError before the first."""
        counted = self.census.counted
        if counted is None:
            raise UnavailableError("the state has not been counted yet: ask again in a moment")
        return sizes_plain(counted, self._store.segment_ms, self._max_bytes)


def sizes_plain(counted: Counted, segment_ms: int, max_bytes: int | None) -> dict[str, Any]:
    """A census for people and programs."""
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
    """The last census, for Prometheus: a bounded number of series, and no key's name among them."""

    def __init__(self, counted: Callable[[], Counted | None]) -> None:
        self._counted = counted

    def collect(self) -> Iterator[Metric]:
        rows = GaugeMetricFamily("cutwater_view_state_rows", "Rows of the state, by the last census.")
        size = GaugeMetricFamily("cutwater_view_state_bytes", "Bytes of their keys and values.")
        at = GaugeMetricFamily("cutwater_view_census_timestamp_seconds", "When it was finished.")
        took = GaugeMetricFamily("cutwater_view_census_seconds", "How long it took, its rests included.")
        shards = GaugeMetricFamily(
            "cutwater_view_shard_bytes", f"The same of the {SHARDS_SHOWN} largest shards.", labels=["shard"]
        )
        keys = GaugeMetricFamily(
            "cutwater_view_key_bytes", "The same of the largest keys; GET /v1/sizes names them.", labels=["rank"]
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
