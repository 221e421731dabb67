"""Derived values: the arithmetic of a row's measures, null where there is none, and nothing but arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches
from cutwater.core.errors import UsageError
from cutwater.core.job.derived_values import columns_of, derived_measure, names_in
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import FieldType, Measure

_SKETCHES = HllSketches()
MEASURES: dict[str, Measure] = {
    "n": build("n", "count", None, None, _SKETCHES),
    "miles": build("miles", "sum", "f", FieldType("long"), _SKETCHES),
    "hours": build("hours", "avg", "f", FieldType("decimal", 9, 2), _SKETCHES),
    "label": build("label", "last", "f", FieldType("string"), _SKETCHES),
    "buckets": build("buckets", "histogram", "f", FieldType("int"), _SKETCHES, bounds=(0,)),
    "seen": build("seen", "max", "f", FieldType("timestamp-millis"), _SKETCHES),
}


def row(miles: int | None = 30, total: str | None = "6", count: int = 4) -> dict[str, Any]:
    exact = None if total is None else Decimal(total)
    return {"n": 3, "miles": None if miles is None else Decimal(miles), "hours_sum": exact, "hours_count": count}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("miles / hours", 20.0),
        ("-miles + 2 * (n - 1.5)", -27.0),
        ("max(miles, n, 7) - min(miles, n)", 27.0),
        ("round(miles / 7)", 4.0),
        ("round(miles / 7, 2)", 4.29),
        ("round(0.285, 2)", 0.29),
        ("round(-2.5)", -3.0),
        ("abs(n - miles)", 27.0),
        (" 1e3 ", 1000.0),
        ("coalesce(miles / (n - 3), -1)", -1.0),
        ("miles / (n - 3)", None),
    ],
)
def test_arithmetic(text: str, expected: float | None) -> None:
    assert derived_measure("d", text, MEASURES).present(row()) == expected


def test_an_operand_without_a_value_gives_none() -> None:
    for text in ("miles / hours", "min(miles, 1)", "-miles", "round(miles)", "coalesce(miles, miles) + 1"):
        assert derived_measure("d", text, MEASURES).present(row(miles=None)) is None
    assert derived_measure("d", "coalesce(miles, hours, n)", MEASURES).present(row(None, None, 0)) == 3.0


def test_what_is_no_finite_number_is_still_one() -> None:
    """The products of doubles have an end; a row with such a value is shown."""
    one = derived_measure("d", "miles * 1e308 * 10", MEASURES)
    assert one.present(row()) == math.inf
    assert derived_measure("d", "round(miles * 1e308 * 10, 3)", MEASURES).present(row()) == math.inf
    nan = derived_measure("e", "d - d", {**MEASURES, "d": one})
    assert math.isnan(nan.present(row()))
    for text in ("max(e, 1)", "max(1, e)"):
        assert math.isnan(derived_measure("f", text, {"e": nan}).present(row())), "NaN is above every number"


def test_a_value_knows_the_columns_that_it_reads() -> None:
    """Also of other derived values; it has no partials, and belongs to no state."""
    speed = derived_measure("speed", "miles / hours", MEASURES)
    twice = derived_measure("twice", "speed * 2 + n", {**MEASURES, "speed": speed})
    assert columns_of(twice) == ("miles", "hours_sum", "hours_count", "n")
    assert (twice.partials, twice.output, twice.plain, twice.present(row())) == ((), "double", False, 43.0)
    assert names_in("speed * max(2, n)") == {"speed", "max", "n"}
    assert names_in("speed *") == set()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mils * 2", "'mils' is no measure of the job: n, miles, .*; did you mean 'miles'?"),
        ("label + 1", "measure 'label' is no number but a string"),
        ("seen + 1", "measure 'seen' is no number but a timestamp-millis"),
        ("buckets + 1", "measure 'buckets' is no number but a list"),
        ("miles ** 2", r"'miles \*\* 2' is not allowed; allowed: numbers, names of measures"),
        ("__import__('os').system('true')", "is not allowed"),
        ("open('x')", "is not allowed"),
        ("'text'", "is not allowed"),
        ("True", "is not allowed"),
        ("miles if n else 1", "is not allowed"),
        ("[one for one in miles]", "is not allowed"),
        ("miles.real", "is not allowed"),
        ("miles > 1", "is not allowed"),
        ("min(miles, key=n)", "is not allowed"),
        ("1j", "is not allowed"),
        ("miles +", "is not an expression"),
        ("", "is not an expression"),
        ("a = 1", "is not an expression"),
        ("abs(n, n)", "abs has 2 operands; allowed: 1 to 1"),
        ("min()", "min has 0 operands; allowed: 1 or more"),
        ("round(n, miles)", "round: the digits are a number from 0 to 15"),
        ("round(n, 16)", "round: the digits"),
        ("9" * 400, "a number is too large for a double"),
        ("1e999", "a number is too large for a double"),
        ("n+" * 300 + "n", "has 601 characters; allowed: 500"),
        ("-" * 400 + "n", "more than 100 levels"),
        ("~" * 400 + "n", "is not allowed"),
        ("(" * 400 + "n", "is not an expression"),
    ],
)
def test_anything_else_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        derived_measure("d", text, MEASURES)


@given(st.text("n()+-*/., 019e_milesroundmax'[]:=\n\0~", max_size=40))
def test_no_text_does_more_than_arithmetic(text: str) -> None:
    """A number, none, or a clear error."""
    try:
        found = derived_measure("d", text, MEASURES).present(row())
    except UsageError:
        return
    assert found is None or isinstance(found, float)
