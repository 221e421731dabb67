"""Metrics of Spark under a driver: the JVM counts from its start, Spark's progress by epoch."""

from __future__ import annotations

from math import isnan

from prometheus_client import CollectorRegistry

from cutwater.adapters.http.spark_metrics import JvmFigures, SparkMetrics
from cutwater.core.tracing.query_progress import QueryProgress

ONE = QueryProgress(
    epoch=4,
    started_ms=0,
    phases_ms={"addBatch": 300, "triggerExecution": 350},
    state_rows=100,
    state_bytes=4_096,
    updated_rows=7,
    removed_rows=2,
    state_ms={"update": 30, "remove": 11, "commit": 40},
    rocksdb={
        "rocksdbGetCount": 9,
        "rocksdbPutCount": 8,
        "rocksdbGetLatency": 500,
        "rocksdbTotalBytesWritten": 1_000,
        "rocksdbReadBlockCacheHitCount": 6,
        "rocksdbReadBlockCacheMissCount": 5,
        "rocksdbSstFileSize": 512,
        "rocksdbPinnedBlocksMemoryUsage": 64,
    },
)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = registry.get_sample_value(f"cutwater_driver_{name}", labels)
    assert found is not None, name
    return found


def test_the_jvm_counts_from_its_start_and_a_look_at_it_adds_what_came_since() -> None:
    """Nothing is known of the heap before the first look."""
    registry = CollectorRegistry()
    metrics = SparkMetrics(registry)
    assert isnan(value(registry, "jvm_heap_used_bytes"))
    metrics.jvm(JvmFigures(100, 1_000, 0.5, 3, 2.0, 10))
    metrics.jvm(JvmFigures(80, 1_000, 0.75, 4, 2.5, 30))
    assert (value(registry, "jvm_heap_used_bytes"), value(registry, "jvm_heap_max_bytes")) == (80, 1_000)
    assert (value(registry, "jvm_gc_seconds_total"), value(registry, "jvm_gc_collections_total")) == (0.75, 4)
    assert (value(registry, "jvm_jit_seconds_total"), value(registry, "spilled_bytes_total")) == (2.5, 30)


def test_each_epoch_adds_what_spark_reports_of_it() -> None:
    """Counters grow by each report, gauges are the newest one's."""
    registry = CollectorRegistry()
    metrics = SparkMetrics(registry)
    assert isnan(value(registry, "state_rows"))
    metrics.progress(ONE)
    metrics.progress(ONE)
    assert value(registry, "spark_phase_seconds_total", phase="addBatch") == 0.6
    assert value(registry, "spark_phase_seconds_total", phase="triggerExecution") == 0.7
    assert (value(registry, "state_rows"), value(registry, "state_memory_bytes")) == (100, 4_096)
    assert (value(registry, "state_updated_rows_total"), value(registry, "state_removed_rows_total")) == (14, 4)
    assert value(registry, "state_task_seconds_total", step="commit") == 0.08
    assert (value(registry, "rocksdb_gets_total"), value(registry, "rocksdb_puts_total")) == (18, 16)
    assert (value(registry, "rocksdb_cache_hits_total"), value(registry, "rocksdb_cache_misses_total")) == (12, 10)
    assert value(registry, "rocksdb_step_seconds_total", step="get") == 1.0
    assert value(registry, "rocksdb_bytes_total", kind="written") == 2_000
    assert (value(registry, "rocksdb_files_bytes"), value(registry, "rocksdb_pinned_bytes")) == (512, 64)


def test_what_spark_does_not_report_is_unknown() -> None:
    """Rows that it does not count, and a state that is not in RocksDB."""
    registry = CollectorRegistry()
    SparkMetrics(registry).progress(QueryProgress(0, 0))
    assert isnan(value(registry, "state_rows"))
    assert isnan(value(registry, "rocksdb_files_bytes"))
