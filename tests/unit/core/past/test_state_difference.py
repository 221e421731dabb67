"""How rows of two states differ, measure by measure."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches
from cutwater.core.checks.state_comparison import RowName
from cutwater.core.errors import UsageError
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import FieldType
from cutwater.core.job.windows import WindowSpec
from cutwater.core.past.state_difference import (
    RowComparer,
    RowKind,
    SharedMeasures,
    ShownRow,
    job_of_rows,
    same_values,
    summary_of,
)
from support.cli.verb_records import JOB as FLIGHTS

NAME = RowName("JFK", 0, 60_000)
_SKETCHES = HllSketches()
COUNT = build("n", "count", None, None, _SKETCHES)
MEAN = build("mean", "avg", "f", FieldType("long"), _SKETCHES)
MOST = build("most", "max", "f", FieldType("long"), _SKETCHES)
BEFORE = replace(FLIGHTS, measures=(COUNT, MEAN))
AFTER = replace(FLIGHTS, measures=(MOST, MEAN))
VALUES = st.none() | st.integers(0, 3) | st.sampled_from([0.5, math.nan, "x"])


def row(**columns: Any) -> ShownRow:
    """A row of one job with all columns, shown as its measures show it."""
    return ShownRow({"n": columns["n"], "mean": columns["mean_sum"] / columns["mean_count"]}, columns)


@given(st.fixed_dictionaries({"n": VALUES, "mean": VALUES}), st.fixed_dictionaries({"n": VALUES, "mean": VALUES}))
def test_a_row_differs_in_what_is_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Each measure that is shown with another value, before and after; nothing, if all are the same."""
    found = RowComparer(BEFORE, BEFORE).change(NAME, ShownRow(before, {}), ShownRow(after, {}))
    expected = [name for name in ("n", "mean") if repr(before[name]) != repr(after[name])]
    assert [one.name for one in found.measures if not same(one)] == expected if found else expected == []
    if found:
        assert all(
            (one.before, one.after) == (before[one.name], after[one.name]) or same(one) for one in found.measures
        )


def same(one: Any) -> bool:
    return repr(one.before) == repr(one.after)


def test_partials_that_users_do_not_see_are_named() -> None:
    """The mean of 2 events is that of 4: the next event makes another one of it."""
    one, two = row(n=1, mean_sum=Decimal(2), mean_count=2), row(n=1, mean_sum=Decimal(4), mean_count=4)
    found = RowComparer(BEFORE, BEFORE).change(NAME, one, two)
    assert found is not None
    assert (found.kind, found.measures, found.hidden) == (RowKind.CHANGED, (), ("mean",))


def test_jobs_with_other_measures_are_compared_on_those_of_both() -> None:
    comparer = RowComparer(BEFORE, AFTER)
    assert comparer.measures == SharedMeasures(("mean",), ("n",), ("most",))
    one, two = ShownRow({"n": 1, "mean": 2}, {}), ShownRow({"most": 9, "mean": 2}, {})
    assert comparer.change(NAME, one, two) is None
    assert [each.name for each in comparer.change(NAME, one, None).measures] == ["mean"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (replace(FLIGHTS, window=WindowSpec(60_000, 60_000)), "no window is in both"),
        (replace(FLIGHTS, key_field="carrier"), "no row is in both"),
    ],
)
def test_states_without_a_common_row_are_not_compared(other: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        RowComparer(FLIGHTS, other)


def test_floating_point_numbers_may_differ_by_a_tolerance() -> None:
    """Wherever they are in a value; other numbers may not."""
    one, two = {"a": [1.0, "x"]}, {"a": [1.0 + 1e-12, "x"]}
    assert same_values(one, two, 1e-9)
    assert not same_values(one, two, 0.0)
    assert not same_values(1, 2, 1.0)
    assert same_values(math.nan, math.nan, 0.0)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=30), st.integers(0, 10))
def test_the_summary_counts_all_and_keeps_the_first(pairs: list[tuple[Any, Any]], limit: int) -> None:
    comparer = RowComparer(BEFORE, BEFORE)
    changes = [
        change
        for one, two in pairs
        if (one is not None or two is not None)
        and (change := comparer.change(NAME, shown(one), shown(two))) is not None
    ]
    found = summary_of(iter(changes), limit)
    assert (found.first, found.rows) == (changes[:limit], len(changes))
    assert found.measures["n"] == sum(one.kind is RowKind.CHANGED for one in changes)


def shown(value: Any) -> ShownRow | None:
    return None if value is None else ShownRow({"n": value, "mean": 1}, {})


def test_the_job_of_rows_is_that_of_their_schema_and_then_of_their_definition() -> None:
    known = [("s1", "d1", BEFORE), ("s1", "d2", AFTER), ("s2", "d3", FLIGHTS)]
    assert job_of_rows(known, "s1", "d2") is AFTER
    assert job_of_rows(known, "s1", "other") is BEFORE
    assert job_of_rows(known, "s3", "d1") is None
