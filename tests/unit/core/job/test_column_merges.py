"""How two values of a user's own column merge, and which columns do."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.job.column_merges import MERGES, merging
from cutwater.core.job.measures import LONG, FieldType, merge, value

KEYS = st.lists(st.one_of(st.none(), st.integers(-(10**6), 10**6)), min_size=2, max_size=20)


@given(KEYS, st.integers(1, 19))
def test_parts_merge_to_the_whole(values: list[int | None], at: int) -> None:
    """Wherever the events are cut into two parts, of which one may hold no value."""
    wholes: dict[str, Any] = {"sum": sum, "min": min, "max": max}
    for how in MERGES:
        column = merging(value("n", LONG), LONG, how)

        def over(part: list[int | None], how: str = how) -> dict[str, Any]:
            there = [one for one in part if one is not None]
            return {"n": wholes[how](there) if there else None}

        assert merge(column, over(values[:at]), over(values[at:])) == over(values)


def test_every_digit_of_a_decimal_is_kept() -> None:
    """Python's default context would round to 28."""
    of = FieldType("decimal", 38, 4)
    column, large = merging(value("n", of), of, "sum"), Decimal(9 * 10**36).scaleb(-4)
    assert str(merge(column, {"n": large}, {"n": Decimal("0.0001")})["n"]).endswith(".0001")


def test_the_row_stays_what_it_was() -> None:
    """So that `merges` may be added to a job that runs: kind, column, type and text of the definition."""
    plain, merges = value("n", LONG), merging(value("n", LONG), LONG, "max")
    assert (plain.kind, plain.plain, plain.output) == (merges.kind, merges.plain, merges.output)
    (one,), (other,) = plain.partials, merges.partials
    assert (one.column, one.avro, one.over_events) == (other.column, other.avro, other.over_events)


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (FieldType("string"), "has no sum; allowed: min, max"),
        (FieldType("boolean"), "has no sum"),
        (FieldType("timestamp-micros"), "has no sum"),
        (FieldType("decimal", 38, 38), "no room for a digit"),
    ],
)
def test_a_column_without_a_sum(of: FieldType, said: str) -> None:
    """Its least and greatest values merge."""
    with pytest.raises(UsageError, match=said):
        merging(value("n", of), of, "sum")
    assert merging(value("n", of), of, "min").merges_by == "min"
