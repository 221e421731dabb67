"""Metrics of Spark under a driver: its JVM, its own progress, its state and RocksDB. Durations are in seconds."""

from __future__ import annotations

from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

from cutwater.core.tracing.query_progress import STATE_STEPS, QueryProgress

_STORE_SECONDS = {
    "get": "rocksdbGetLatency",
    "put": "rocksdbPutLatency",
    "load": "rocksdbLoadLatencyMs",
    "flush": "rocksdbCommitFlushLatency",
    "compaction": "rocksdbTotalCompactionLatencyMs",
    "stall": "rocksdbWriterStallLatencyMs",
}
"""Label -> Spark's name; so below."""
_STORE_BYTES = {
    "read": "rocksdbTotalBytesRead",
    "iterated": "rocksdbTotalBytesReadThroughIterator",
    "written": "rocksdbTotalBytesWritten",
    "flushed": "rocksdbTotalBytesWrittenByFlush",
    "compacted": "rocksdbTotalBytesWrittenByCompaction",
    "checkpoint": "rocksdbBytesCopied",
}


class JvmFigures(NamedTuple):
    heap_used_bytes: int
    heap_max_bytes: int
    gc_seconds: float
    """Time of all collections since its start, concurrent ones included."""
    gc_count: int
    jit_seconds: float = 0.0
    """Time of the compilers since its start."""
    spilled_bytes: int = 0
    """Bytes that tasks in this JVM have spilled to disk since its start."""


class SparkMetrics:
    """Metrics of the session and the queries of one driver, since its start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        here: dict[str, Any] = {"registry": registry, "namespace": "cutwater", "subsystem": "driver"}
        self._heap = Gauge("jvm_heap_used_bytes", "Used heap of Spark's JVM, garbage included.", **here)
        self._heap_max = Gauge("jvm_heap_max_bytes", "Maximum heap of Spark's JVM.", **here)
        self._gc = Counter("jvm_gc", "Time of the JVM's garbage collections.", unit="seconds", **here)
        self._gc_count = Counter("jvm_gc_collections", "Garbage collections of the JVM.", **here)
        self._jit = Counter(
            "jvm_jit", "Time of the JVM's compilers, in threads of their own.", unit="seconds", **here
        )
        self._spilled = Counter(
            "spilled_bytes", "Bytes that tasks in the JVM spilled to disk; other executors' are not seen.", **here
        )
        self._phases = Counter(
            "spark_phase",
            "Time of the phases of Spark's epochs, by Spark's names; triggerExecution is the whole.",
            ["phase"],
            unit="seconds",
            **here,
        )
        self._rows = Gauge("state_rows", "Rows of Spark's state; NaN if Spark does not count them.", **here)
        self._memory = Gauge("state_memory_bytes", "Memory of Spark's state, as Spark estimates it.", **here)
        self._updated = Counter("state_updated_rows", "Rows of Spark's state written.", **here)
        self._removed = Counter("state_removed_rows", "Rows of Spark's state evicted.", **here)
        self._state_seconds = Counter(
            "state_task", "Time of all tasks in Spark's state, by step.", ["step"], unit="seconds", **here
        )
        self._gets = Counter("rocksdb_gets", "Rows that Spark's state looked up.", **here)
        self._puts = Counter("rocksdb_puts", "Rows that Spark's state put.", **here)
        self._hits = Counter("rocksdb_cache_hits", "Blocks that Spark's state found in memory.", **here)
        self._misses = Counter("rocksdb_cache_misses", "Blocks that Spark's state loaded from disk.", **here)
        self._store_seconds = Counter(
            "rocksdb_step", "Time of RocksDB in Spark's state, by step.", ["step"], unit="seconds", **here
        )
        self._store_bytes = Counter(
            "rocksdb_bytes", "Bytes of RocksDB in Spark's state, by kind.", ["kind"], **here
        )
        self._files = Gauge("rocksdb_files_bytes", "Size of the sorted files of Spark's state.", **here)
        self._pinned = Gauge("rocksdb_pinned_bytes", "Memory of blocks that readers of Spark's state pin.", **here)
        self._jvm = JvmFigures(0, 0, 0.0, 0)
        for step in STATE_STEPS:
            self._state_seconds.labels(step)
        for unknown in (self._heap, self._heap_max, self._rows, self._memory, self._files, self._pinned):
            unknown.set(float("nan"))

    def jvm(self, found: JvmFigures) -> None:
        """Take the JVM's present figures, which count from its own start."""
        before, self._jvm = self._jvm, found
        self._heap.set(found.heap_used_bytes)
        self._heap_max.set(found.heap_max_bytes)
        self._gc.inc(max(0.0, found.gc_seconds - before.gc_seconds))
        self._gc_count.inc(max(0, found.gc_count - before.gc_count))
        self._jit.inc(max(0.0, found.jit_seconds - before.jit_seconds))
        self._spilled.inc(max(0, found.spilled_bytes - before.spilled_bytes))

    def progress(self, one: QueryProgress) -> None:
        """Count an epoch by Spark's report about it."""
        for phase, ms in one.phases_ms.items():
            self._phases.labels(phase).inc(ms / 1000)
        self._rows.set(float("nan") if one.state_rows is None else one.state_rows)
        self._memory.set(one.state_bytes)
        self._updated.inc(one.updated_rows)
        self._removed.inc(one.removed_rows)
        for step, ms in one.state_ms.items():
            self._state_seconds.labels(step).inc(ms / 1000)
        store = one.rocksdb
        self._gets.inc(store.get("rocksdbGetCount", 0))
        self._puts.inc(store.get("rocksdbPutCount", 0))
        self._hits.inc(store.get("rocksdbReadBlockCacheHitCount", 0))
        self._misses.inc(store.get("rocksdbReadBlockCacheMissCount", 0))
        for step, name in _STORE_SECONDS.items():
            self._store_seconds.labels(step).inc(store.get(name, 0) / 1000)
        for kind, name in _STORE_BYTES.items():
            self._store_bytes.labels(kind).inc(store.get(name, 0))
        self._files.set(store.get("rocksdbSstFileSize", float("nan")))
        self._pinned.set(store.get("rocksdbPinnedBlocksMemoryUsage", float("nan")))
