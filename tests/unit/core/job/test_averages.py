"""Averages with a scale: the true quotient, rounded once; sums of decimals as DuckDB has them."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches
from cutwater.core.errors import UsageError
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import ADDEND_DIGITS, FieldType, Measure, merge

MONEY = FieldType("decimal", ADDEND_DIGITS, 2)
MOST = Decimal(10**ADDEND_DIGITS - 1).scaleb(-2)
"""The largest addend: an event with a larger value is a dead letter."""
AMOUNTS = st.sampled_from([MOST, -MOST, MOST - 1, Decimal("0.01"), Decimal("-0.01"), Decimal("0.00")]) | st.builds(
    lambda cents: Decimal(cents).scaleb(-2), st.integers(-(10**ADDEND_DIGITS) + 1, 10**ADDEND_DIGITS - 1)
)


def average(scale: int | None, of: FieldType = MONEY) -> Measure:
    return build("m", "avg", "f", of, HllSketches(), scale=scale)


def partials(values: list[Decimal]) -> dict[str, Any]:
    with localcontext() as exact:
        exact.prec = 60
        return {"m_sum": sum(values) if values else None, "m_count": len(values)}


@settings(max_examples=60, deadline=None)
@given(st.lists(AMOUNTS, min_size=1, max_size=6), st.lists(AMOUNTS, max_size=6), st.integers(0, 12))
def test_an_average_is_the_true_quotient_rounded_once(
    one: list[Decimal], other: list[Decimal], scale: int
) -> None:
    """Of two merged rows; the sum is DuckDB's over DECIMAL(38, 2), and the quotient is one of fractions."""
    measure = average(scale)
    merged = merge(measure, partials(one), partials(other))
    values = [*one, *other]
    rows = ", ".join(f"('{value}'::DECIMAL(38,2))" for value in values)
    [(total,)] = duckdb.sql(f"SELECT sum(v) FROM (VALUES {rows}) AS t(v)").fetchall()
    assert merged == {"m_sum": total, "m_count": len(values)}
    scaled = Fraction(total) / len(values) * 10**scale
    whole = int(abs(scaled) + Fraction(1, 2))  # half away from zero
    shown = measure.present(merged)
    assert Fraction(shown) == Fraction(whole if scaled > 0 else -whole, 10**scale)
    assert shown.as_tuple().exponent == -scale
    assert len(shown.as_tuple().digits) <= measure.output["precision"] == 38


@pytest.mark.parametrize(
    ("values", "scale", "shown"),
    [
        (["0.02", "0.03"], 2, "0.03"),
        (["-0.02", "-0.03"], 2, "-0.03"),
        (["0.01", "0.01", "0.00"], 4, "0.0067"),
        (["10.00"], 0, "10"),
        (["-0.01", "0.00", "0.00"], 2, "0.00"),
        (["0.25", "0.26"], 1, "0.3"),
    ],
)
def test_half_is_rounded_away_from_zero(values: list[str], scale: int, shown: str) -> None:
    found = average(scale).present(partials([Decimal(one) for one in values]))
    assert str(found) == shown
    assert found == (sum(map(Decimal, values)) / len(values)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)


def test_without_a_scale_an_average_stays_a_double() -> None:
    """Its output and its state are those of before; the state is the same with a scale."""
    plain, exact = average(None), average(4)
    assert (plain.output, exact.output["scale"]) == ("double", 4)
    assert [(one.column, one.avro, one.over_events, one.over_both) for one in plain.partials] == [
        (one.column, one.avro, one.over_events, one.over_both) for one in exact.partials
    ]
    assert plain.present(partials([Decimal("0.01"), Decimal("0.02")])) == 0.015
    assert exact.present({"m_sum": None, "m_count": 0}) is None


@pytest.mark.parametrize(
    ("of", "scale", "said"),
    [
        (FieldType("double"), 2, "an average of double has no scale, because its sum is rounded; allowed"),
        (FieldType("int"), 29, r"scale is 29; allowed for int: 0 to 28"),
        (FieldType("long"), -1, r"scale is -1; allowed for long: 0 to 19"),
        (FieldType("decimal", 9, 2), 32, r"scale is 32; allowed for decimal\(9,2\): 0 to 31"),
        (FieldType("decimal", 38, 18), 29, r"scale is 29; allowed for decimal\(38,18\): 0 to 28"),
    ],
)
def test_a_scale_without_room_is_refused(of: FieldType, scale: int, said: str) -> None:
    with pytest.raises(UsageError, match=f"measure 'm': .*{said}"):
        average(scale, of)
    if of.name != "double":
        average(scale - 1 if scale > 0 else 0, of)
