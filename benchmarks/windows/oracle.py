"""What B2 must come to, by DuckDB over the generated columns: no Kafka, no Avro, no Spark."""

from __future__ import annotations

import time

import duckdb
import pandas as pd

from benchmarks.windows.workload import Events, key_name

State = dict[tuple[str, int], tuple[int, int, int]]
"""(key, window start in ms) -> (count, sum, maximum)."""

_SQL = """
SELECT key, time_ms - time_ms % $slide - step * $slide AS start_ms, count(*), sum(value)::BIGINT, max(value)
FROM loaded CROSS JOIN range($size // $slide) AS steps(step)
GROUP BY ALL
"""


def expected(events: Events, size_ms: int, slide_ms: int) -> tuple[State, float]:
    """Every (key, window) that holds an event, and the seconds that DuckDB took. The slide divides the size."""
    frame = pd.DataFrame({"key": events.key, "time_ms": events.time_ms, "value": events.value})
    with duckdb.connect() as db:
        db.register("events", frame)
        db.execute("CREATE TABLE loaded AS SELECT * FROM events")
        started = time.monotonic()
        rows = db.execute(_SQL, {"size": size_ms, "slide": slide_ms}).fetchall()
        took = time.monotonic() - started
    state = {
        (key_name(key), start): (int(count), int(total), int(highest))
        for key, start, count, total, highest in rows
    }
    return state, took
