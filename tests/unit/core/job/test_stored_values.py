"""Stored values: what Spark is told to compute, what is refused, and that nobody merges them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches, ThetaSketches
from cutwater.core.errors import UsageError
from cutwater.core.job.derived_values import derived_measure
from cutwater.core.job.kinds.stored_values import SQL_MAX, stored_measure
from cutwater.core.job.measure_kinds import By, build
from cutwater.core.job.measures import LONG, STORED, THETA, FieldType, Measure, merged_row

_SKETCHES = HllSketches()
MEASURES: dict[str, Measure] = {
    "n": build("n", "count", None, None, _SKETCHES),
    "miles": build("miles", "sum", "f", LONG, _SKETCHES),
    "mean": build("mean", "avg", "f", FieldType("decimal", 9, 2), _SKETCHES),
    "exact": build("exact", "avg", "f", LONG, _SKETCHES, scale=2),
    "planes": build("planes", "distinct", "t", FieldType("string"), _SKETCHES),
    "sample": build("sample", "distinct", "t", FieldType("string"), ThetaSketches(), sketch=THETA),
    "fast": build("fast", "min_by", "f", LONG, _SKETCHES, By("g", LONG)),
    "spread": build("spread", "variance", "f", LONG, _SKETCHES),
    "label": build("label", "last", "t", FieldType("string"), _SKETCHES),
    "shares": build("shares", "quantile", "f", LONG, _SKETCHES, ranks=(0.5,)),
}


def sql(text: str) -> str:
    [partial] = stored_measure("d", text, MEASURES).partials
    return partial.over_events


def test_each_measure_is_what_users_see_of_it_as_a_double() -> None:
    """Users of a stored value see the number that they would see of the measures themselves."""
    assert sql("n") == "cast(count(*) as double)"
    assert sql("mean").startswith("cast(try_divide(cast(cast(sum(")
    assert sql("planes").startswith("cast(coalesce(hll_sketch_estimate(hll_sketch_agg(")
    assert sql("sample").startswith("cast(coalesce(theta_sketch_estimate(case when count(`t`) > 0 then")
    assert sql("fast").endswith("`f` as value) end)).value as double)")


def test_operations_keep_null_and_divide_by_zero_to_null() -> None:
    """`least` of Spark would leave a null out, and `/` would end the query."""
    n = "cast(count(*) as double)"
    assert sql("-n + 2 * (n - 1.5)") == f"((- {n}) + (2.0D * ({n} - 1.5D)))"
    assert sql("n / 0") == f"try_divide({n}, 0.0D)"
    assert sql("round(n, 2) + round(n)") == f"(round({n}, 2) + round({n}, 0))"
    assert sql("coalesce(n, 1)") == f"coalesce({n}, 1.0D)"
    assert "exists(v, x -> x is null), null, array_min(v)" in sql("min(n, 1)")
    assert sql("max(n)") == n


def test_a_row_with_a_seed_has_the_seeds_value_or_that_of_recounted_events_or_none() -> None:
    """Events of before are not in Spark's state, unless the seed has their partials, of all of them."""
    [partial] = stored_measure("d", "n + planes", MEASURES).partials
    n, planes = (MEASURES[one].partials[0].over_both for one in ("n", "planes"))
    assert partial.over_both == (
        f"case when count(`__seed`) = 0 then {partial.over_events} "
        "when count(`__event_time`) = 0 then max(`__seed`.`d`) "
        "when max(`__seed`.`__whole`) then "
        f"(cast({n} as double) + cast(coalesce(hll_sketch_estimate({planes}), 0L) as double)) end"
    )


def test_rows_have_one_double_and_the_state_the_inputs() -> None:
    made = stored_measure("d", "n / planes + planes", MEASURES)
    assert (made.kind, made.output, made.plain) == (STORED, "double", True)
    assert [(one.column, one.avro) for one in made.partials] == [("d", "double")]
    assert [one.column for one in made.inputs] == ["n", "planes"]
    assert made.present({"d": 2.5}) == 2.5


@given(st.lists(st.tuples(st.none() | st.integers(0, 9), st.none() | st.floats(0, 9)), min_size=2, max_size=4))
def test_a_merged_row_has_no_stored_value(rows: list[tuple[int | None, float | None]]) -> None:
    """Two rows of one key in one place: also where one of them has none, the other is not the value of both."""
    measures = (MEASURES["n"], stored_measure("d", "n / planes", MEASURES))
    one: Any = dict(zip(("n", "d"), rows[0], strict=True))
    for other in rows[1:]:
        one = merged_row(measures, one, dict(zip(("n", "d"), other, strict=True)))
    counted = [count for count, _ in rows if count is not None]
    assert one == {"n": sum(counted) if counted else None, "d": None}


REFUSED = {
    "label + planes": "measure 'label' is no number but a string",
    "shares + planes": "measure 'shares' is no number but a list",
    "spread / planes": "'spread' is a variance, of which Spark does not compute what users see",
    "exact / planes": "'exact' is an average with a scale",
    "rate * planes": "'rate' is a derived value.*write its expression in place of its name",
    "kept * planes": "'kept' is a derived value",
    "nothing + planes": "'nothing' is no measure of the job",
    "planes ** 2": "is not allowed",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_spark_cannot_compute_alike_is_refused(text: str) -> None:
    known = {**MEASURES, "rate": derived_measure("rate", "n / miles", MEASURES)}
    known["kept"] = stored_measure("kept", "planes", MEASURES)
    with pytest.raises(UsageError, match=REFUSED[text]):
        stored_measure("d", text, known)


def test_an_expression_that_would_be_very_long_in_sql_is_refused() -> None:
    """A name of one letter stands for its whole aggregate."""
    partial = replace(MEASURES["planes"].partials[0], over_events=f"max({'x' * (SQL_MAX // 10)})")
    known = {"p": replace(MEASURES["planes"], name="p", partials=(partial,))}
    assert stored_measure("d", "p + p", known)
    with pytest.raises(UsageError, match=r"has \d+,\d+ characters as Spark's SQL.*allowed: 100,000"):
        stored_measure("d", " + ".join(["p"] * 12), known)
