"""The demo's expected state, computed by DuckDB from the events alone.

It uses no Spark, no Kafka and no other module of Cutwater's pipeline: two computations with shared code could make
the same error.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd

from cutwater.core.errors import UsageError

HOUR_MS = 3_600_000
_NOTHING_LATE = pd.DataFrame({"produced": [], "window_start_ms": []}, dtype="int64")
KEY = ("airport", "window_start_ms")

# An event at t lies in the windows that start at t's own slide boundary and at the earlier ones that
# are less than a window away. Boundaries are multiples of the slide since 1970, as in Spark's window().
_SQL = """
WITH placed AS (
    SELECT e.*, e.scheduled_at - e.scheduled_at % $slide - step * $slide AS window_start_ms
    FROM events e CROSS JOIN range($steps) AS steps(step)
    WHERE e.scheduled_at - (e.scheduled_at - e.scheduled_at % $slide - step * $slide) < $window
), counted AS (
    SELECT placed.* FROM placed ANTI JOIN late USING (produced, window_start_ms)
)
SELECT airport,
       window_start_ms::BIGINT AS window_start_ms,
       count(*)::BIGINT AS movements,
       count(delay_minutes)::BIGINT AS delayed,
       sum(delay_minutes)::BIGINT AS total_delay,
       max(delay_minutes)::BIGINT AS worst_delay,
       min(delay_minutes)::BIGINT AS best_delay,
       avg(delay_minutes)::DOUBLE AS mean_delay,
       first(flight ORDER BY scheduled_at, produced) FILTER (flight IS NOT NULL) AS first_flight,
       last(carrier ORDER BY scheduled_at, produced) FILTER (carrier IS NOT NULL) AS last_carrier,
       count(DISTINCT carrier)::BIGINT AS carriers,
       sum(distance_miles)::BIGINT AS miles
FROM counted
GROUP BY airport, window_start_ms
ORDER BY airport, window_start_ms
"""


def expected(
    events: pd.DataFrame,
    window_ms: int = HOUR_MS,
    slide_ms: int | None = None,
    late: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the measures of every (airport, window) that contains an event, sorted by these two.

    `events`: in production order, of 1970 or later, with the columns of `cutwater.demo.flights.FlightEvent`.
    `slide_ms`: None for tumbling windows. `late`: the (event, window) pairs to leave out, with the columns
    `produced` (the event's position in the production order) and `window_start_ms`. Delays are in minutes, and
    null (a nullable Int64, or NaN in `mean_delay`) if no event of the window has one. Raise UsageError for
    impossible windows.
    """
    slide_ms = window_ms if slide_ms is None else slide_ms
    if not 0 < slide_ms <= window_ms:
        raise UsageError(
            f"a window of {window_ms} ms that slides by {slide_ms} ms is impossible: "
            "choose a slide above 0 and at most the window"
        )
    parameters = {"window": window_ms, "slide": slide_ms, "steps": -(-window_ms // slide_ms)}
    with duckdb.connect() as db:
        db.register("events", _plain(events))
        db.register("late", _NOTHING_LATE if late is None else late)
        result = db.execute(_SQL, parameters).df()
    # DuckDB returns a nullable integer as a float; the comparison needs integers.
    whole = result.columns.difference(["airport", "mean_delay", "first_flight", "last_carrier"])
    return result.astype(dict.fromkeys(whole, "Int64"))


def pairs(events: pd.DataFrame, window_ms: int, slide_ms: int) -> int:
    """Return the number of (event, window) pairs. Windows start at multiples of the slide."""
    times = events["scheduled_at"]
    return int((times // slide_ms - (times - window_ms) // slide_ms).sum())


def rows(state: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of `expected` as plain Python values, missing ones as None."""
    columns = [_column(state[name]) for name in state.columns]
    return [dict(zip(state.columns, values, strict=True)) for values in zip(*columns, strict=True)]


def busiest(state: pd.DataFrame, n: int = 10) -> pd.DataFrame:
    """Return the `n` rows with the most movements; equal ones sorted by airport, then by time."""
    order = state.sort_values(["movements", *KEY], ascending=[False, True, True])
    return order.head(n).reset_index(drop=True)


def _column(values: pd.Series) -> list[Any]:
    missing = values.isna()
    plain: list[Any] = (values.astype(object).where(~missing, None) if missing.any() else values).tolist()
    return plain


def _plain(events: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that the query reads, and the production order as another one."""
    names = ["airport", "scheduled_at", "delay_minutes", "carrier", "flight", "distance_miles"]
    return events[names].assign(produced=range(len(events)))
