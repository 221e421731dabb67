"""The kinds of measures, and how one is built from its declaration.

Nulls are ignored, as in SQL. `first` and `last` order by (event time, origin, partition, offset). This order is
total, so a replay gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.job.measures import (
    ADDEND_DIGITS,
    COUNTABLE,
    HLL_LG_K,
    LONG,
    LONG_DIGITS,
    MAX_DECIMAL,
    NUMBERS,
    ORDER_FIELDS,
    ORDERED,
    FieldType,
    Limit,
    Measure,
    Partial,
    Partials,
    Sketches,
    coalesced,
    count_partial,
    seed_of,
    sum_partial,
    sum_type,
)
from cutwater.core.job.moments import FACTOR_DIGITS, deviation, variance

Maker = Callable[[str, str | None, FieldType, Sketches], Measure]


def _count(name: str, field: str | None, _of: FieldType, _sketches: Sketches) -> Measure:
    return Measure(name, "count", (count_partial(name, field),), lambda row: row[name] or 0, "long")


def _sum(name: str, field: str | None, of: FieldType, _sketches: Sketches) -> Measure:
    return Measure(name, "sum", (sum_partial(name, str(field), of),), lambda row: row[name], sum_type(of).avro)


def _spark_order(value: Any) -> Any:
    # Spark orders NaN above every number; in Python the result would depend on the order of the arguments.
    return (value != value, value)  # noqa: PLR0124


def _extreme(order: str, kind: str = "") -> Maker:
    """`order`: min or max. `kind`: its name for booleans, of which false is the least."""
    choose, closest = (min, "least") if order == "min" else (max, "greatest")

    def make(name: str, field: str | None, of: FieldType, _sketches: Sketches) -> Measure:
        partial = Partial(
            name,
            of.avro,
            f"{order}({field})",
            f"{closest}({order}({field}), {order}({seed_of(name)}))",
            lambda one, other: choose(one, other, key=_spark_order),
        )
        return Measure(name, kind or order, (partial,), lambda row: row[name], of.avro)

    return make


def _avg(name: str, field: str | None, of: FieldType, _sketches: Sketches) -> Measure:
    total, count = f"{name}_sum", f"{name}_count"

    def present(row: Partials) -> float | None:
        if not row[count]:
            return None
        quotient: Decimal | float = row[total] / row[count]
        return float(quotient)

    partials = (sum_partial(total, str(field), of), count_partial(count, field))
    return Measure(name, "avg", partials, present, "double")


def _positioned(kind: str) -> Maker:
    """`first` and `last`: a value with its position in the total order, so that min and max merge it."""
    choose, closest = (min, "least") if kind == "first" else (max, "greatest")
    aggregate = choose.__name__

    def order(value: Any) -> Any:
        return tuple(value[part] for part in ORDER_FIELDS)

    def make(name: str, field: str | None, of: FieldType, _sketches: Sketches) -> Measure:
        types = {"event_time": FieldType("timestamp-micros").avro, "origin": "string"}
        types |= {"partition": "int", "offset": "long", "value": of.avro}
        record = {
            "type": "record",
            "name": f"{name}_at",
            "fields": [{"name": part, "type": type_} for part, type_ in types.items()],
        }
        place = (
            "`__event_time` as event_time, `__origin` as origin, `__partition` as partition, `__offset` as offset"
        )
        over = f"{aggregate}(case when {field} is not null then struct({place}, {field} as value) end)"
        partial = Partial(
            name,
            record,
            over,
            f"{closest}({over}, {aggregate}({seed_of(name)}))",
            lambda one, other: choose(one, other, key=order),
        )
        return Measure(name, kind, (partial,), lambda row: row[name]["value"] if row[name] else None, of.avro)

    return make


EMPTY = "\\u0000cutwater: the empty value 5b1e93c07d1f4f0c\\u0000"
"""What a sketch gets for an empty text or empty bytes, as Spark SQL, because the library ignores those."""


def _distinct(name: str, field: str | None, of: FieldType, sketches: Sketches) -> Measure:
    plain = f"hll_sketch_agg({field}, {HLL_LG_K})"
    events, seeds = plain, f"hll_union_agg({seed_of(name)})"
    if of.name in ("string", "bytes"):
        stand_in = f"'{EMPTY}'" if of.name == "string" else f"cast('{EMPTY}' as binary)"
        events = f"hll_sketch_agg(if(octet_length({field}) = 0, {stand_in}, {field}), {HLL_LG_K})"
    both = coalesced(f"hll_union({events}, {seeds})", events, seeds)
    # Other values are sketched as before, so older sketches, which lack the empty value, merge with new ones.
    partial = Partial(name, "bytes", events, both, sketches.union, plain)

    def present(row: Partials) -> int:
        return round(sketches.estimate(row[name])) if row[name] else 0

    return Measure(name, "distinct", (partial,), present, "long")


KINDS: dict[str, tuple[frozenset[str], Maker]] = {
    "count": (ORDERED | COUNTABLE, _count),
    "sum": (NUMBERS, _sum),
    "min": (ORDERED, _extreme("min")),
    "max": (ORDERED, _extreme("max")),
    "avg": (NUMBERS, _avg),
    "first": (ORDERED, _positioned("first")),
    "last": (ORDERED, _positioned("last")),
    "distinct": (COUNTABLE, _distinct),
    "variance": (NUMBERS, variance),
    "stddev": (NUMBERS, deviation),
    "every": (frozenset({"boolean"}), _extreme("min", "every")),
    "any": (frozenset({"boolean"}), _extreme("max", "any")),
}
_DIGITS = {"sum": ADDEND_DIGITS, "avg": ADDEND_DIGITS, "variance": FACTOR_DIGITS, "stddev": FACTOR_DIGITS}
"""Digits of one event's value, by kind; a (key, window) holds 10^9 events of so many."""

SYNONYMS = {
    **dict.fromkeys(("number", "count_events"), "count"),
    "total": "sum",
    **dict.fromkeys(("minimum", "least", "smallest"), "min"),
    **dict.fromkeys(("maximum", "greatest", "largest"), "max"),
    **dict.fromkeys(("average", "mean"), "avg"),
    **dict.fromkeys(("earliest", "first_value"), "first"),
    **dict.fromkeys(("latest", "newest", "last_value"), "last"),
    **dict.fromkeys(("var", "var_samp", "var_sample"), "variance"),
    **dict.fromkeys(("std", "stdev", "stddev_samp", "standard_deviation"), "stddev"),
    **dict.fromkeys(("all", "bool_and", "and"), "every"),
    **dict.fromkeys(("some", "bool_or", "or"), "any"),
    **dict.fromkeys(("unique", "count_distinct", "approx_count_distinct", "cardinality"), "distinct"),
}
"""Names of the kinds in other systems."""


def build(name: str, kind: str, field: str | None, field_type: FieldType | None, sketches: Sketches) -> Measure:
    """Return the measure of a declaration. Raises UsageError if kind, field and type do not match."""
    if kind not in KINDS:
        raise UsageError(f"measure '{name}': '{kind}' is not a measure; allowed: {', '.join(KINDS)}")
    allowed, maker = KINDS[kind]
    if field is None or field_type is None:
        if kind != "count":
            raise UsageError(f"measure '{name}': {kind} needs a field")
        return maker(name, None, LONG, sketches)
    if field_type.name not in allowed:
        raise UsageError(
            f"measure '{name}': {kind} of field '{field}', which is {field_type}; "
            f"allowed types: {', '.join(sorted(allowed))}"
        )
    made = replace(maker(name, f"`{field}`", field_type, sketches), field=field)
    return replace(made, limit=_limit(name, kind, field, field_type)) if kind in _DIGITS else made


def _limit(name: str, kind: str, field: str, of: FieldType) -> Limit | None:
    """Return the limit of one event's value; None if every value of its type fits.

    Raises UsageError for a type of which no digits would be left.
    """
    digits = _DIGITS[kind]
    if of.name not in ("long", "decimal") or max(of.precision, LONG_DIGITS * (of.name == "long")) <= digits:
        return None
    if of.scale >= digits:
        raise UsageError(
            f"measure '{name}': {kind} of field '{field}', which is {of}: {of.scale} of {MAX_DECIMAL} digits "
            f"are behind the point, and a sum has no room before it; allowed scales: below {digits}"
        )
    return Limit(field, FieldType("decimal", digits, of.scale))
