"""Measures: merging partials of two sets of events gives the partials of their union, for every kind and type."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
from datasketches import hll_sketch, kll_doubles_sketch, tgt_hll_type
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches
from cutwater.core.errors import UsageError
from cutwater.core.job.measure_kinds import KINDS, By, build
from cutwater.core.job.measures import HLL_LG_K, FieldType, Measure, merge, sql_sum
from cutwater.core.job.measures import value as value_measure

TYPES: dict[str, tuple[FieldType, st.SearchStrategy[Any]]] = {
    "int": (FieldType("int"), st.integers(-(2**31), 2**31 - 1)),
    "long": (FieldType("long"), st.integers(-(2**63), 2**63 - 1)),
    "double": (FieldType("double"), st.floats(-1e9, 1e9)),
    "decimal": (FieldType("decimal", 28, 6), st.decimals(-(10**21), 10**21, places=6)),
    "string": (FieldType("string"), st.text(max_size=4)),
    "boolean": (FieldType("boolean"), st.booleans()),
}
SQUARED = {"variance", "stddev"}
NAN = math.nan
BOUNDS = (-5, 0, 10)
BYS: list[float | None] = [None, -1.5, -0.0, 0.0, 1.5, math.inf, NAN]
PAIRS = [(kind, of) for kind, (allowed, _) in KINDS.items() for of in TYPES if of in allowed]
every_pair = pytest.mark.parametrize(("kind", "of"), PAIRS, ids=[f"{kind}-{of}" for kind, of in PAIRS])
Event = dict[str, Any]


def measure(kind: str, of: str) -> Measure:
    by = By("b", FieldType("double")) if kind in {"min_by", "max_by"} else None
    bounds = BOUNDS if kind == "histogram" else ()
    ranks = (0, 0.5, 1) if kind == "quantile" else ()
    items = 10 if kind == "top" else None
    return build("m", kind, "f", TYPES[of][0], HllSketches(), by, bounds, ranks, items)


@st.composite
def parts(draw: st.DrawFn, of: str, kind: str = "") -> list[list[Event]]:
    """Three disjoint sets of events, some without a value; places are unique, as in Kafka."""
    narrow = {"long": st.integers(-(10**14), 10**14), "decimal": st.decimals(-(10**7), 10**7, places=6)}
    drawn = narrow.get(of, TYPES[of][1]) if kind in SQUARED else TYPES[of][1]
    values = draw(st.lists(st.none() | drawn, max_size=9))
    times = draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values)))
    bys = draw(st.lists(st.sampled_from(BYS), min_size=len(values), max_size=len(values)))
    events = [
        {
            "by": by,
            "event_time": time,
            "origin": "ab"[number % 2],
            "partition": number % 3,
            "offset": number,
            "value": value,
        }
        for number, (value, time, by) in enumerate(zip(values, times, bys, strict=True))
    ]
    owners = draw(st.lists(st.integers(0, 2), min_size=len(events), max_size=len(events)))
    return [[one for one, owner in zip(events, owners, strict=True) if owner == part] for part in range(3)]


def aggregate(kind: str, of: str, events: list[Event]) -> dict[str, Any]:
    """The partials over events, as a person would write them: nulls ignored, None where nothing is left."""
    kept = [one for one in events if one["value"] is not None]
    exact = of == "long" and kind in {"sum", "avg"}
    values = [Decimal(one["value"]) if exact else one["value"] for one in kept]
    if kind in SQUARED or kind == "avg":
        return moments(values) if of == "double" and kind in SQUARED else sums(kind, of, events, values)
    if kind in {"count", "histogram"}:
        found = Counter(bisect_right(BOUNDS, value) if kind == "histogram" else 0 for value in values)
        return {f"m_{bucket}": found[bucket] for bucket in range(4)} if kind == "histogram" else {"m": found[0]}
    if kind in {"first", "last", "min_by", "max_by"}:
        return positioned(kind, kept)
    if not values:
        return {"m": None}
    if kind in {"distinct", "quantile"}:
        return {"m": sketch_of(kind, values)}
    over: dict[str, Callable[[list[Any]], Any]] = {
        "sum": total,
        "min": min,
        "max": max,
        "every": all,
        "any": any,
        "top": counted,
    }
    return {"m": over[kind](values)}


def counted(values: list[Any]) -> dict[str, Any]:
    counts = [{"value": value, "count": count} for value, count in sorted(Counter(values).items())]
    return {"error": 0, "values": counts}


def positioned(kind: str, kept: list[Event]) -> dict[str, Any]:
    ordered = sorted(kept, key=lambda one: (one["event_time"], one["origin"], one["partition"], one["offset"]))
    if kind.endswith("_by"):
        ordered = [one for one in ordered if one["by"] is not None]
        ordered.sort(key=lambda one: math.inf if math.isnan(one["by"]) else math.atan(one["by"]))
    else:
        ordered = [{part: value for part, value in one.items() if part != "by"} for one in ordered]
    return {"m": ordered[0 if kind in {"first", "min_by"} else -1] if ordered else None}


def sketch_of(kind: str, values: list[Any]) -> bytes:
    if kind == "quantile":
        quantiles = kll_doubles_sketch(200)
        for value in values:
            quantiles.update(float(value))
        return bytes(quantiles.serialize())
    sketch = hll_sketch(HLL_LG_K, tgt_hll_type.HLL_8)
    for value in values:
        sketch.update(value)
    return bytes(sketch.serialize_updatable())


def sums(kind: str, of: str, events: list[Event], values: list[Any]) -> dict[str, Any]:
    found = {"m_sum": aggregate("sum", of, events)["m"], "m_count": len(values)}
    squares = total([Decimal(one) * Decimal(one) for one in values]) if values else None
    return {**found, "m_squares": squares} if kind in SQUARED else found


def moments(values: list[float]) -> dict[str, Any]:
    if not values:
        return {"m": None}
    m2 = statistics.pvariance(map(Fraction, values)) * len(values)
    return {"m": {"count": len(values), "mean": float(statistics.mean(map(Fraction, values))), "m2": float(m2)}}


def total(values: list[Any]) -> Any:
    with localcontext() as context:
        context.prec = 60  # the test's own sum must not lose digits either
        return sum(values)


def same(one: Measure, row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Equal; sums of doubles within a tolerance, sketches by their estimate."""
    if one.kind in {"distinct", "quantile"}:
        return bool(one.present(row) == one.present(other))
    return row.keys() == other.keys() and all(near(value, other[name]) for name, value in row.items())


def near(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict) and "m2" in one:
        return all(near(one[part], other[part]) for part in one)
    if isinstance(one, float) and other is not None:
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-3)
    return bool(one == other)


@every_pair
@settings(max_examples=40)
@given(st.data())
def test_merged_partials_are_those_of_the_union(kind: str, of: str, data: st.DataObject) -> None:
    """In whatever order and grouping three parts are merged, nulls and empty parts included (I2)."""
    one, sets = measure(kind, of), data.draw(parts(of, kind))
    rows = [aggregate(kind, of, events) for events in sets]
    assert all(set(row) == {partial.column for partial in one.partials} for row in rows)
    expected = aggregate(kind, of, [event for events in sets for event in events])
    for a, b, c in permutations(rows):
        for merged in (merge(one, merge(one, a, b), c), merge(one, a, merge(one, b, c))):
            assert same(one, merged, expected), (merged, expected)


@every_pair
def test_a_part_without_values_changes_nothing(kind: str, of: str) -> None:
    """Events that are all null in a field leave the other part's partials as they are."""
    one = measure(kind, of)
    nothing = aggregate(kind, of, [])
    value: Any = {"string": "x", "decimal": Decimal("1.5")}.get(of, 1)
    something = aggregate(kind, of, [dict(event_time=1, origin="a", partition=0, offset=0, value=value, by=2.0)])
    assert merge(one, nothing, something) == merge(one, something, nothing) == something
    assert merge(one, nothing, nothing) == nothing
    empty: dict[str, Any] = {"count": 0, "distinct": 0, "histogram": [0, 0, 0, 0]}
    assert one.present(nothing) == empty.get(kind)


@given(st.lists(st.integers(-(10**14), 10**14), min_size=2, max_size=20))
def test_a_variance_of_whole_numbers_is_exact(values: list[int]) -> None:
    """However far the values are from zero, and however close together."""
    for near_one in (values, [10**13 + one % 3 for one in values]):
        row = aggregate("variance", "long", [{"value": one} for one in near_one])
        expected = statistics.variance(map(Fraction, near_one))
        assert measure("variance", "long").present(row) == float(expected)
        assert measure("stddev", "long").present(row) == pytest.approx(math.sqrt(expected), rel=1e-15)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20), st.integers(1, 19))
def test_a_variance_far_from_zero_keeps_its_digits(values: list[float], cut: int) -> None:
    """Two parts merged; a difference of sums of squares would have no digit left."""
    far = [1e8 + one for one in values]
    one = measure("variance", "double")
    row = merge(one, moments(far[:cut]), moments(far[cut:]))
    assert one.present(row) == pytest.approx(statistics.variance(map(Fraction, far)), rel=1e-6, abs=1e-14)


def test_one_value_has_no_variance() -> None:
    for of, value in (("int", 3), ("double", 3.5)):
        for kind in SQUARED:
            row = aggregate(kind, of, [{"value": value, "event_time": 1}])
            assert measure(kind, of).present(row) is None


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(-(10**38) + 1, 10**38 - 1))
def test_decimal_sums_keep_every_digit(one: int, other: int) -> None:
    """Sums have up to 38 digits; Python's default context would round them to 28 in silence."""
    total = merge(measure("sum", "long"), {"m": Decimal(one)}, {"m": Decimal(other)})["m"]
    assert int(total) == one + other


@given(st.lists(st.floats(), min_size=2, max_size=4))
def test_nan_is_above_every_number(values: list[float]) -> None:
    """As in Spark, and whatever the order: Python's own min and max would depend on it."""
    numbers = [value for value in values if not math.isnan(value)]
    for kind, expected in (
        ("min", min(numbers) if numbers else math.nan),
        ("max", max(numbers) if len(numbers) == len(values) else math.nan),
    ):
        one = measure(kind, "double")
        for order in permutations(values):
            row: Any = {"m": None}
            for value in order:
                row = merge(one, row, {"m": value})
            assert row["m"] == pytest.approx(expected, rel=0, abs=0, nan_ok=True)


def test_presentations() -> None:
    """What users see: the quotient of an average, the value of first and last without its place."""
    assert measure("avg", "int").present({"m_sum": 7, "m_count": 2}) == 3.5
    assert measure("avg", "long").present({"m_sum": Decimal(10**30), "m_count": 4}) == 2.5e29
    assert measure("avg", "int").present({"m_sum": None, "m_count": 0}) is None
    place = {"event_time": 1, "origin": "a", "partition": 0, "offset": 3, "value": "UA1"}
    assert measure("last", "string").present({"m": place}) == "UA1"
    assert measure("sum", "int").present({"m": -3}) == -3


@pytest.mark.parametrize(("size", "shared"), [(100, 0), (20_000, 5_000), (60_000, 60_000)])
def test_a_union_of_sketches_is_within_its_stated_error(size: int, shared: int) -> None:
    """Two real HLL sketches with shared values: the merged estimate is within 4 standard errors (6.5 %)."""
    one = measure("distinct", "long")
    rows = []
    for first in (0, size - shared):
        sketch = hll_sketch(HLL_LG_K, tgt_hll_type.HLL_8)
        for number in range(first, first + size):
            sketch.update(number)
        rows.append({"m": bytes(sketch.serialize_updatable())})
    estimate = one.present(merge(one, rows[0], rows[1]))
    assert estimate == pytest.approx(2 * size - shared, rel=0.065)
    assert estimate == one.present(merge(one, rows[1], rows[0]))


@pytest.mark.parametrize(
    ("kind", "field", "of", "said"),
    [
        ("median", "f", FieldType("int"), "'median' is not a measure; allowed: count, sum, min"),
        ("sum", None, None, "sum needs a field"),
        ("sum", "f", FieldType("string"), "sum of field 'f', which is string; allowed types: decimal, double"),
        ("min", "f", FieldType("bytes"), "min of field 'f', which is bytes; allowed types: boolean, decimal"),
        ("distinct", "f", FieldType("decimal", 9, 2), r"which is decimal\(9,2\); allowed types: bytes, int"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(
    kind: str, field: str | None, of: FieldType | None, said: str
) -> None:
    """The message names the measure, the field, its type and the types that are allowed."""
    with pytest.raises(UsageError, match=f"measure 'm': .*{said}"):
        build("m", kind, field, of, HllSketches())


def test_of_equal_ones_the_order_of_events_decides() -> None:
    """`min_by` has the first of them, `max_by` the last, and NaN is equal to itself; whatever the order."""
    for by in (3.0, math.nan):
        events = [
            {"by": by, "event_time": 1, "origin": "a", "partition": 0, "offset": offset, "value": f"v{offset}"}
            for offset in range(3)
        ]
        for kind, expected in (("min_by", "v0"), ("max_by", "v2")):
            one = measure(kind, "string")
            for order in permutations(events):
                row: Any = {"m": None}
                for event in order:
                    row = merge(one, row, {"m": {**event, "by": by + 0.0}})
                assert one.present(row) == expected


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (None, "max_by needs 'by', the field that decides"),
        (
            By("b", FieldType("string")),
            "max_by by field 'b', which is string; allowed types: decimal, double, float",
        ),
    ],
)
def test_the_deciding_field_is_a_number_or_a_time(by: By | None, said: str) -> None:
    with pytest.raises(UsageError, match=f"measure 'm': {said}"):
        build("m", "max_by", "f", FieldType("string"), HllSketches(), by)


@pytest.mark.parametrize(
    ("of", "bounds", "said"),
    [
        (FieldType("int"), (), "histogram needs 'bounds', as in"),
        (FieldType("int"), tuple(range(101)), "101 bounds; allowed: 1 to 100"),
        (FieldType("int"), (0, 15, 15), r"the bounds are not ascending: \[0, 15, 15\]"),
        (FieldType("long"), (0.5,), "the bound 0.5 is no long, which its field is"),
        (FieldType("long"), (2**63,), "the bound 9223372036854775808 is no long"),
        (FieldType("decimal", 5, 2), (1.125,), r"the bound 1.125 is no decimal\(5,2\)"),
        (FieldType("decimal", 5, 2), (1000,), r"the bound 1000 is no decimal\(5,2\)"),
        (FieldType("double"), (10**400,), "is no double"),
        (FieldType("decimal", 9, 2), (16**5_000,), "the bound a number with too many digits is no decimal"),
        (FieldType("double"), (2**53, 2**53 + 1), "the bounds are not ascending"),
    ],
)
def test_bounds_are_ascending_values_of_the_field(of: FieldType, bounds: tuple[float, ...], said: str) -> None:
    with pytest.raises(UsageError, match=f"measure 'm': .*{said}"):
        build("m", "histogram", "f", of, HllSketches(), bounds=bounds)


def test_a_type_is_named_with_its_digits() -> None:
    """A decimal's are part of what it is."""
    assert str(FieldType("decimal", 28, 6)) == "decimal(28,6)"
    assert str(FieldType("long")) == "long"


def test_a_type_is_written_as_avro_has_it() -> None:
    assert FieldType("long").avro == "long"
    assert FieldType("timestamp-micros").avro == {"type": "long", "logicalType": "timestamp-micros"}
    wanted = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    assert FieldType("decimal", 5, 2).avro == wanted


def test_a_measure_without_its_type_is_refused() -> None:
    with pytest.raises(UsageError, match="sum needs a field"):
        build("m", "sum", "f", None, HllSketches())
    with pytest.raises(UsageError, match="sum needs a field"):
        build("m", "sum", None, FieldType("long"), HllSketches())


def test_a_column_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(UsageError, match="column 'm' is bytes; allowed types"):
        value_measure("m", FieldType("bytes"))


def test_two_values_of_a_query_of_ones_own_are_never_merged() -> None:
    """Nobody knows what they mean: one that stands alone is kept, and two are refused by the column's name."""
    column = value_measure("share", FieldType("double"))
    assert merge(column, {"share": 0.5}, {"share": None}) == {"share": 0.5}
    with pytest.raises(UsageError, match="column 'share' comes from a query of your own"):
        merge(column, {"share": 0.5}, {"share": 0.25})


@every_pair
def test_a_measure_knows_its_kind(kind: str, of: str) -> None:
    """Also one that is calculated as another: `any` is the greatest of booleans."""
    assert measure(kind, of).kind == kind


def test_only_sums_of_decimals_are_cast() -> None:
    """To leave room for a carry: Spark would round the last digits."""
    assert sql_sum("a", "b", FieldType("long")) == "a + b"
    carried = "cast(cast(a as decimal(37,2)) + cast(b as decimal(37,2)) as decimal(38,2))"
    assert sql_sum("a", "b", FieldType("decimal", 38, 2)) == carried
