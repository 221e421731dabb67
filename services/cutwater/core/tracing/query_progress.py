"""Spark's own report about an epoch: the times of its phases, and what its state operators and RocksDB did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

STATE_STEPS = {"update": "allUpdatesTimeMs", "remove": "allRemovalsTimeMs", "commit": "commitTimeMs"}
"""Our name -> Spark's."""
_ROCKSDB = "rocksdb"


@dataclass(frozen=True)
class QueryProgress:
    """Sums over all state operators and their tasks."""

    epoch: int
    started_ms: int
    """When the trigger began, before Spark asked for the source's offsets."""
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    """By Spark's names; `triggerExecution` is the whole."""
    state_rows: int | None = None
    """None if Spark does not count them."""
    state_bytes: int = 0
    updated_rows: int = 0
    removed_rows: int = 0
    state_ms: Mapping[str, int] = field(default_factory=dict)
    """The time of all tasks, by `STATE_STEPS`."""
    rocksdb: Mapping[str, int] = field(default_factory=dict)
    """Its counters in this epoch, and its sizes, by Spark's names."""


def parse_progress(told: Mapping[str, Any]) -> QueryProgress:
    """Return a progress from Spark's JSON. Raises KeyError, ValueError if it is none."""
    operators = list(told.get("stateOperators", ()))
    rows = [int(one.get("numRowsTotal", -1)) for one in operators]
    return QueryProgress(
        epoch=int(told["batchId"]),
        started_ms=round(datetime.fromisoformat(told["timestamp"]).timestamp() * 1_000),
        phases_ms={name: int(value) for name, value in told.get("durationMs", {}).items()},
        state_rows=sum(rows) if rows and min(rows) >= 0 else None,
        state_bytes=_sum(operators, "memoryUsedBytes"),
        updated_rows=_sum(operators, "numRowsUpdated"),
        removed_rows=_sum(operators, "numRowsRemoved"),
        state_ms={name: _sum(operators, field) for name, field in STATE_STEPS.items()},
        rocksdb=_rocksdb(one.get("customMetrics", {}) for one in operators),
    )


def _sum(operators: Iterable[Mapping[str, Any]], name: str) -> int:
    """Return the sum of a field; what is negative is not known to Spark."""
    return sum(max(0, int(one.get(name, 0))) for one in operators)


def _rocksdb(found: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    every = list(found)
    names = sorted({name for one in every for name in one if name.startswith(_ROCKSDB)})
    return {name: _sum(every, name) for name in names}
