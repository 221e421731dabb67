"""The result of a comparison as table rows and JSON."""

from __future__ import annotations

from typing import Any

from cutwater.cli.report import iso
from cutwater.core.checks.state_comparison import RowDifference, RowTotals
from cutwater.core.util.text_tables import Column, Lines


def sum_json(one: RowTotals) -> dict[str, Any]:
    return {"rows": one.rows, "digest": f"{one.digest:016x}"}


def difference_json(one: RowDifference) -> dict[str, Any]:
    return {
        "key": one.name.key,
        "window_start": iso(one.name.start_ms),
        "window_end": iso(one.name.end_ms),
        "shard": one.shard,
        "values": one.values,
        "suspects": list(one.suspects),
    }


DIFFERENCE = ("key", "window from", Column("to", 1), "suspected", Column("values", below=True))
"""Columns of the rows that differ."""


def difference_row(one: RowDifference) -> tuple[str | Lines, ...]:
    values = Lines(tuple(f"{place}: {value or '(no row)'}" for place, value in one.values.items()))
    name = one.name
    return name.key, iso(name.start_ms), iso(name.end_ms), ", ".join(one.suspects), values
