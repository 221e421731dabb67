"""Measures: mergeable partial aggregates.

A kind of measure defines its partials, how to aggregate them over events, and over events with seeds (partials of
a parent generation), how to merge two partials in Python, and how to present the result. Aggregates are Spark SQL
text, so Spark runs them natively and this file needs only the standard library.

Nulls are ignored, as in SQL. `first` and `last` order by (event time, origin, partition, offset). This order is
total, so a replay gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Any, NamedTuple, Protocol

from cutwater.core.errors import UsageError

Partials = Mapping[str, Any]
"""Partial columns of one row, by column name."""

HLL_LG_K = 12
"""4,096 registers per sketch: a relative standard error of about 1.6 %."""

MAX_DECIMAL = 38
ADDEND_DIGITS = MAX_DECIMAL - 10
"""Digits of one event's value in a sum of decimals: a (key, window) holds 10^9 events, in addition to a seed."""

SEED = "__seed"
"""The struct column of a seed's partials. It is NULL in events; the columns of events are NULL in seeds."""


class Sketches(Protocol):
    def union(self, one: bytes, other: bytes) -> bytes: ...

    def estimate(self, sketch: bytes) -> float: ...


@dataclass(frozen=True)
class FieldType:
    """The type of an event's field: the Avro or logical type, and a decimal's precision and scale."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    @property
    def avro(self) -> Any:
        if self.name == "decimal":
            digits = {"precision": self.precision, "scale": self.scale}
            return {"type": "bytes", "logicalType": "decimal", **digits}
        if self.name.startswith("timestamp"):
            return {"type": "long", "logicalType": self.name}
        return self.name


LONG = FieldType("long")
DOUBLE = FieldType("double")
BYTES = FieldType("bytes")
TIMES = frozenset({"timestamp-millis", "timestamp-micros"})
NUMBERS = frozenset({"int", "long", "float", "double", "decimal"})
ORDERED = NUMBERS | TIMES | {"string", "boolean"}
COUNTABLE = frozenset({"int", "long", "string", "bytes"})
VALUE = "value"
"""The kind of a column of a user's own query. Cutwater stores it, and cannot merge it."""
PLAIN = frozenset({"count", "sum", "min", "max", VALUE})


@dataclass(frozen=True)
class Partial:
    column: str
    avro: Any
    over_events: str
    over_both: str
    merge: Callable[[Any, Any], Any]
    """Merges two values that are not null."""
    defined: str = ""
    """Replaces `over_events` in a job's definition if that text has changed and old rows merge with new ones."""


class Limit(NamedTuple):
    """The type that an event's field must fit, because the measure cannot hold more."""

    field: str
    type: FieldType


@dataclass(frozen=True)
class Measure:
    name: str
    kind: str
    partials: tuple[Partial, ...]
    present: Callable[[Partials], Any]
    """Converts the row's partials to the value that users see; None if no event had a value."""
    output: Any
    limit: Limit | None = None
    field: str | None = None
    """The aggregated field of the events; None for a count of all events, and for a user's own column."""

    @property
    def plain(self) -> bool:
        """Whether users see the only partial unchanged."""
        return self.kind in PLAIN


def value(name: str, of: FieldType) -> Measure:
    """Return the measure for a column of a user's own query. Raises UsageError for an unsupported type."""
    if of.name not in ORDERED:
        raise UsageError(
            f"column '{name}' is {of}; allowed types: {', '.join(sorted(ORDERED))}. Cast it in your query"
        )

    def refuse(_one: Any, _other: Any) -> Any:
        raise unmergeable(name)

    partial = Partial(name, of.avro, f"`{name}`", f"`{name}`", refuse)
    return Measure(name, VALUE, (partial,), lambda row: row[name], of.avro)


def unmergeable(name: str) -> UsageError:
    return UsageError(
        f"column '{name}' comes from a query of your own, so Cutwater cannot merge two of its values. "
        "Starting a generation from a milestone needs declared measures (docs/JOBFILE.md)"
    )


def merge(measure: Measure, one: Partials, other: Partials) -> dict[str, Any]:
    """Return the partials of the union of two disjoint sets of events."""
    return {
        partial.column: _merge_nullable(partial.merge, one[partial.column], other[partial.column])
        for partial in measure.partials
    }


def merged_row(measures: Sequence[Measure], one: Partials, other: Partials) -> dict[str, Any]:
    """Merge the partials of one key and window over two disjoint sets of events."""
    return {name: value for measure in measures for name, value in merge(measure, one, other).items()}


def _merge_nullable(combine: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return combine(one, other)


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
    return replace(made, limit=_limit(name, kind, field, field_type)) if kind in ("sum", "avg") else made


def _limit(name: str, kind: str, field: str, of: FieldType) -> Limit | None:
    """Return the limit of one event's value in a sum; None if every value of its type fits.

    Raises UsageError for a type whose sum would have no digits left.
    """
    if of.name != "decimal" or of.precision <= ADDEND_DIGITS:
        return None
    if of.scale >= ADDEND_DIGITS:
        raise UsageError(
            f"measure '{name}': {kind} of field '{field}', which is {of}: {of.scale} of {MAX_DECIMAL} digits "
            f"are behind the point, and a sum has no room before it; allowed scales: below {ADDEND_DIGITS}"
        )
    return Limit(field, FieldType("decimal", ADDEND_DIGITS, of.scale))


def sum_type(of: FieldType) -> FieldType:
    """Return the type of a sum, which loses no digits unless the field is a float.

    A (key, window) holds at least 2^32 events of an int, 10^18 of a long, or 10^9 of a decimal without overflow.
    """
    if of.name == "int":
        return LONG
    if of.name == "long":
        return FieldType("decimal", MAX_DECIMAL, 0)
    if of.name == "decimal":
        return FieldType("decimal", MAX_DECIMAL, of.scale)
    return DOUBLE


def _sql_type(of: FieldType) -> str:
    return "bigint" if of.name == "long" else str(of)


def _sum_partial(column: str, field: str, of: FieldType) -> Partial:
    total = sum_type(of)
    sql = _sql_type(total)
    # Spark widens a decimal sum by 10 digits, so the operand must be narrow enough for the total to fit.
    operand = f"cast({field} as decimal({ADDEND_DIGITS},{total.scale}))" if total.name == "decimal" else field
    events, seeds = f"cast(sum({operand}) as {sql})", f"cast(sum({_seed(column)}) as {sql})"
    return Partial(column, total.avro, events, _both(_sql_sum(events, seeds, total), events, seeds), _add)


def _sql_sum(one: str, other: str, of: FieldType) -> str:
    if of.name != "decimal":
        return f"{one} + {other}"
    # For two operands of full precision Spark would round the last digits of the sum, to have room for a carry.
    one, other = (f"cast({each} as decimal({MAX_DECIMAL - 1},{of.scale}))" for each in (one, other))
    return f"cast({one} + {other} as {of})"


def _seed(column: str) -> str:
    return f"`{SEED}`.`{column}`"


def _both(merged: str, events: str, seeds: str) -> str:
    """Return SQL for `merged`, or for the one aggregate that is not NULL. Spark computes each once."""
    return f"coalesce({merged}, {events}, {seeds})"


# Python's default context would round sums to 28 digits. One digit more than the widest sum holds.
_EXACT = Context(prec=MAX_DECIMAL + 1)


def _add(one: Any, other: Any) -> Any:
    return _EXACT.add(one, other) if isinstance(one, Decimal) else one + other


def _count_partial(column: str, field: str | None) -> Partial:
    # A seed is not an event: only events have an event time.
    both = f"count({field or '`__event_time`'}) + coalesce(sum({_seed(column)}), 0L)"
    return Partial(column, "long", f"count({field or '*'})", both, lambda one, other: one + other)


def _count(name: str, field: str | None, _of: FieldType, _sketches: Sketches) -> Measure:
    return Measure(name, "count", (_count_partial(name, field),), lambda row: row[name] or 0, "long")


def _sum(name: str, field: str | None, of: FieldType, _sketches: Sketches) -> Measure:
    return Measure(name, "sum", (_sum_partial(name, str(field), of),), lambda row: row[name], sum_type(of).avro)


def _spark_order(value: Any) -> Any:
    # Spark orders NaN above every number; in Python the result would depend on the order of the arguments.
    return (value != value, value)  # noqa: PLR0124


def _extreme(kind: str) -> Maker:
    choose, closest = (min, "least") if kind == "min" else (max, "greatest")

    def make(name: str, field: str | None, of: FieldType, _sketches: Sketches) -> Measure:
        partial = Partial(
            name,
            of.avro,
            f"{kind}({field})",
            f"{closest}({kind}({field}), {kind}({_seed(name)}))",
            lambda one, other: choose(one, other, key=_spark_order),
        )
        return Measure(name, kind, (partial,), lambda row: row[name], of.avro)

    return make


def _avg(name: str, field: str | None, of: FieldType, _sketches: Sketches) -> Measure:
    total, count = f"{name}_sum", f"{name}_count"

    def present(row: Partials) -> float | None:
        if not row[count]:
            return None
        quotient: Decimal | float = row[total] / row[count]
        return float(quotient)

    partials = (_sum_partial(total, str(field), of), _count_partial(count, field))
    return Measure(name, "avg", partials, present, "double")


ORDER_FIELDS = ("event_time", "origin", "partition", "offset")


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
            f"{closest}({over}, {aggregate}({_seed(name)}))",
            lambda one, other: choose(one, other, key=order),
        )
        return Measure(name, kind, (partial,), lambda row: row[name]["value"] if row[name] else None, of.avro)

    return make


EMPTY = "\\u0000cutwater: the empty value 5b1e93c07d1f4f0c\\u0000"
"""What a sketch gets for an empty text or empty bytes, as Spark SQL, because the library ignores those."""


def _distinct(name: str, field: str | None, of: FieldType, sketches: Sketches) -> Measure:
    plain = f"hll_sketch_agg({field}, {HLL_LG_K})"
    events, seeds = plain, f"hll_union_agg({_seed(name)})"
    if of.name in ("string", "bytes"):
        stand_in = f"'{EMPTY}'" if of.name == "string" else f"cast('{EMPTY}' as binary)"
        events = f"hll_sketch_agg(if(octet_length({field}) = 0, {stand_in}, {field}), {HLL_LG_K})"
    both = _both(f"hll_union({events}, {seeds})", events, seeds)
    # Other values are sketched as before, so older sketches, which lack the empty value, merge with new ones.
    partial = Partial(name, "bytes", events, both, sketches.union, plain)

    def present(row: Partials) -> int:
        return round(sketches.estimate(row[name])) if row[name] else 0

    return Measure(name, "distinct", (partial,), present, "long")


Maker = Callable[[str, str | None, FieldType, Sketches], Measure]

KINDS: dict[str, tuple[frozenset[str], Maker]] = {
    "count": (ORDERED | COUNTABLE, _count),
    "sum": (NUMBERS, _sum),
    "min": (ORDERED, _extreme("min")),
    "max": (ORDERED, _extreme("max")),
    "avg": (NUMBERS, _avg),
    "first": (ORDERED, _positioned("first")),
    "last": (ORDERED, _positioned("last")),
    "distinct": (COUNTABLE, _distinct),
}

SYNONYMS = {
    **dict.fromkeys(("number", "count_events"), "count"),
    "total": "sum",
    **dict.fromkeys(("minimum", "least", "smallest"), "min"),
    **dict.fromkeys(("maximum", "greatest", "largest"), "max"),
    **dict.fromkeys(("average", "mean"), "avg"),
    **dict.fromkeys(("earliest", "first_value"), "first"),
    **dict.fromkeys(("latest", "newest", "last_value"), "last"),
    **dict.fromkeys(("unique", "count_distinct", "approx_count_distinct", "cardinality"), "distinct"),
}
"""Names of the kinds in other systems."""
