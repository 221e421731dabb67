"""Spark's report about an epoch, read from the JSON that Spark 4.2 writes."""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.core.tracing.query_progress import QueryProgress, parse_progress

OPERATOR: dict[str, Any] = {
    "operatorName": "stateStoreSave",
    "numRowsTotal": 100,
    "numRowsUpdated": 7,
    "allUpdatesTimeMs": 30,
    "numRowsRemoved": 2,
    "allRemovalsTimeMs": 11,
    "commitTimeMs": 40,
    "memoryUsedBytes": 4_096,
    "numRowsDroppedByWatermark": 0,
    "customMetrics": {"rocksdbGetCount": 9, "rocksdbSstFileSize": 512, "other": 1},
}
TOLD: dict[str, Any] = {
    "batchId": 5,
    "timestamp": "2026-11-30T04:12:35.250Z",
    "durationMs": {"addBatch": 300, "latestOffset": 4, "triggerExecution": 350},
    "stateOperators": [OPERATOR, OPERATOR],
}


def test_the_operators_of_a_query_are_summed() -> None:
    found = parse_progress(TOLD)
    assert (found.epoch, found.started_ms) == (5, 1_796_011_955_250)
    assert found.phases_ms == {"addBatch": 300, "latestOffset": 4, "triggerExecution": 350}
    assert (found.state_rows, found.state_bytes) == (200, 8_192)
    assert (found.updated_rows, found.removed_rows) == (14, 4)
    assert found.state_ms == {"update": 60, "remove": 22, "commit": 80}
    assert found.rocksdb == {"rocksdbGetCount": 18, "rocksdbSstFileSize": 1_024}


def test_rows_that_spark_does_not_count_are_unknown() -> None:
    """With trackTotalNumberOfRows=false it says -1 for each partition."""
    told = TOLD | {"stateOperators": [OPERATOR, OPERATOR | {"numRowsTotal": -2}]}
    assert parse_progress(told).state_rows is None


def test_a_query_without_state_has_none() -> None:
    found = parse_progress({"batchId": 0, "timestamp": "1970-01-01T00:00:01.000Z"})
    assert found == QueryProgress(0, 1_000, state_ms={"update": 0, "remove": 0, "commit": 0})


@pytest.mark.parametrize("broken", [{"timestamp": TOLD["timestamp"]}, TOLD | {"timestamp": "today"}])
def test_what_is_no_progress_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises((KeyError, ValueError)):
        parse_progress(broken)
