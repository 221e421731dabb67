"""What B2 must come to, by DuckDB over the generated columns: no Kafka, no Avro, no Spark, no panes."""

from __future__ import annotations

import re
import time
from typing import Any

import duckdb

from benchmarks.windows.columns import Backlog

Row = tuple[Any, ...]
"""A window's measures, in the order of the job file."""
State = dict[tuple[str, int], Row]
"""(key, window start in ms) -> the window's measures."""
TICKS = "count(*), sum(value)::BIGINT, max(value)"
"""Of the jobs that count ticks."""

_SQL = """
SELECT key_place, "at" - "at" % $slide - step * $slide AS start_ms, {measures}
FROM loaded CROSS JOIN range($size // $slide) AS steps(step)
WHERE {where}
GROUP BY ALL
"""


def expected(
    events: Backlog, measures: str, size_ms: int, slide_ms: int, where: str = "true"
) -> tuple[State, float]:
    """Every (key, window) that holds an event, and the seconds that DuckDB took. The slide divides the size.

    `measures`, `where`: SQL over the events' fields, `record_partition` and `record_offset`. The event time is
    `at`.
    """
    used = f"at {measures} {where}"
    frame = events.frame(name for name in events.fields if re.search(rf"\b{name}\b", used))
    with duckdb.connect() as db:
        db.register("events", frame)
        db.execute("CREATE TABLE loaded AS SELECT * FROM events")
        started = time.monotonic()
        sql = _SQL.format(measures=measures, where=where)
        rows = db.execute(sql, {"size": size_ms, "slide": slide_ms}).fetchall()
        took = time.monotonic() - started
    return {(events.key.words[place], start): tuple(row) for place, start, *row in rows}, took
