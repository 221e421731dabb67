"""The windows of one key as a chart, and the differences between two answers about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cutwater.core.util.timestamps import moment_ms

ROWS_MAX = 2_000
NOT_MEASURES = frozenset({"key", "window_start", "window_end"})

NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})

Row = Mapping[str, Any]


def chart(rows: Sequence[Row], key_columns: Iterable[str] = ()) -> dict[str, Any]:
    """Return the numbers of each measure by window; measures whose values are no numbers by name only."""
    named = NOT_MEASURES | set(key_columns)
    measures = [name for name in (rows[0] if rows else ()) if name not in named]
    columns = {name: [finite(row.get(name)) for row in rows] for name in measures}
    numeric = [name for name in measures if all(is_number(one) or one is None for one in columns[name])]
    plotted = [name for name in numeric if any(one is not None for one in columns[name])]
    return {
        "starts_ms": [milliseconds_of(row["window_start"]) for row in rows],
        "series": {name: columns[name] for name in plotted},
        "others": [name for name in measures if name not in plotted],
        "rows": list(rows),
    }


def window_differences(before: Iterable[Row], after: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the windows that differ between two answers, oldest first: each value on both sides."""
    old = {milliseconds_of(row["window_start"]): row for row in before}
    new = {milliseconds_of(row["window_start"]): row for row in after}
    return [
        found
        for start in sorted({*old, *new})
        if (found := _difference(start, old.get(start), new.get(start))) is not None
    ]


def _difference(start_ms: int, old: Row | None, new: Row | None) -> dict[str, Any] | None:
    if old is None or new is None:
        return {"start_ms": start_ms, "is": "added" if old is None else "removed", "values": {}}
    changed = {
        name: [old.get(name), new.get(name)]
        for name in {**old, **new}
        if name not in NOT_MEASURES and old.get(name) != new.get(name)
    }
    return {"start_ms": start_ms, "is": "changed", "values": changed} if changed else None


def finite(value: Any) -> Any:
    """Return the value; None in the place of NaN and the infinities, which the API writes as texts."""
    return None if isinstance(value, str) and value in NOT_FINITE else value


def is_number(value: Any) -> bool:
    """Return whether a value of JSON is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def milliseconds_of(value: str | int) -> int:
    """Return a time of the API in ms; it is text within the years 1 to 9999."""
    return value if isinstance(value, int) else moment_ms(value)
