"""Measures: mergeable partial aggregates.

A measure defines its partials, how to aggregate them over events, and over events with seeds (partials of a parent
generation), how to merge two partials in Python, and how to present the result. Aggregates are Spark SQL text, so
Spark runs them natively and this file needs only the standard library. `core.job.measure_kinds` has the kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, NamedTuple, Protocol

from cutwater.core.errors import UsageError

Partials = Mapping[str, Any]
"""Partial columns of one row, by column name."""

HLL, THETA = "hll", "theta"
"""The sketches of different values."""
HLL_LG_K = 12
"""4,096 registers per sketch: a relative standard error of about 1.6 %."""
THETA_LG_K = 12
THETA_VALUES = 1 << THETA_LG_K
"""Different values up to which a theta sketch has all hashes. Above them its relative standard error is 1.6 %."""
THETA_HEAD_BYTES, THETA_HASH_BYTES = 24, 8
THETA_BYTES_MAX = THETA_HEAD_BYTES + THETA_HASH_BYTES * THETA_VALUES

MAX_DECIMAL = 38
LONG_DIGITS = 19
ADDEND_DIGITS = MAX_DECIMAL - 10
"""Digits of one event's value in a sum of decimals: a (key, window) holds 10^9 events, in addition to a seed."""

ORDER_FIELDS = ("event_time", "origin", "partition", "offset")
"""The total order of events, for `first` and `last`, and for ties of `min_by` and `max_by`."""
INDEX = "index"
"""The last part of that order if events are the elements of arrays."""
BY = "by"
"""The part of a `min_by` or `max_by` that decides before that order."""

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
"""The kind of a column of a user's own query. Cutwater merges it only as the job file says."""
STORED = "stored"
"""The kind of a derived value that Spark computes, and a row stores: `core.job.kinds.stored_values`."""
PLAIN = frozenset({"count", "sum", "min", "max", "every", "any", VALUE, STORED})


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
    one_seed: bool = False
    """Whether `over_both` is right for one seed a row only, and not where several rows of a parent become one."""
    mergeable: bool = True
    """Whether two values can be merged; otherwise a row that is merged of two has none."""

    @property
    def meaning(self) -> str:
        """What it is computed from, as in a job's definition."""
        return self.defined or self.over_events


class Declaration(NamedTuple):
    """What a job file declares of one measure. Fields are SQL: names in backquotes."""

    name: str
    field: str | None
    """None: all events count."""
    of: FieldType
    """The field's type."""
    sketches: Sketches
    by: str = ""
    """The field that decides; empty for kinds without one."""
    by_type: FieldType = LONG
    bounds: tuple[float, ...] = ()
    ranks: tuple[float, ...] = ()
    items: int = 0
    exploded: bool = False
    """Whether events are the elements of arrays."""
    scale: int | None = None
    """The digits behind the point of an exact average; None for a double."""
    sketch: str = ""
    """The kind of a `distinct`'s sketch."""


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
    length: int = 0
    """The number of values if users see a list; else 0. Rows have no order by a list."""
    reads: tuple[str, ...] = ()
    """The columns of other measures' partials that a derived value is computed from. It has no partials."""
    inputs: tuple[Partial, ...] = ()
    """The partials that Spark computes a stored value from, in its state."""
    merges_by: str = ""
    """How two values of a column of a user's own query merge; empty: the job file does not say."""
    sketch: str = ""
    """The kind of the sketch of a `distinct`; empty for other measures."""
    renamed_from: str = ""
    """Its name in the parent's job file, for a generation that renames it."""

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
        f"column '{name}' comes from a query of your own, so Cutwater cannot merge two of its values, as the "
        f"start of a generation from a milestone does. Say in attached.merges how each column merges, as in "
        f"merges: {{{name}: sum}} (docs/ATTACH.md), or use declared measures (docs/JOBFILE.md)"
    )


def merge(measure: Measure, one: Partials, other: Partials) -> dict[str, Any]:
    """Return the partials of the union of two disjoint sets of events."""
    return row_merge([measure])(one, other)


def merged_row(measures: Sequence[Measure], one: Partials, other: Partials) -> dict[str, Any]:
    """Merge the partials of one key and window over two disjoint sets of events."""
    return row_merge(measures)(one, other)


def row_merge(measures: Sequence[Measure]) -> Callable[[Partials, Partials], dict[str, Any]]:
    """Return `merged_row` for many rows."""
    every = [partial for measure in measures for partial in measure.partials]
    parts = [(partial.column, partial.merge) for partial in every if partial.mergeable]
    unmerged = {partial.column: None for partial in every if not partial.mergeable}

    def merged(one: Partials, other: Partials) -> dict[str, Any]:
        made: dict[str, Any] = dict(unmerged)
        for column, combine in parts:
            a, b = one[column], other[column]
            made[column] = b if a is None else a if b is None else combine(a, b)
        return made

    return merged


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


def sum_partial(column: str, field: str, of: FieldType) -> Partial:
    total = sum_type(of)
    sql = _sql_type(total)
    # Spark widens a decimal sum by 10 digits, so the operand must be narrow enough for the total to fit.
    operand = f"cast({field} as decimal({ADDEND_DIGITS},{total.scale}))" if total.name == "decimal" else field
    events, seeds = f"cast(sum({operand}) as {sql})", f"cast(sum({seed_of(column)}) as {sql})"
    return Partial(column, total.avro, events, coalesced(sql_sum(events, seeds, total), events, seeds), add)


def sql_sum(one: str, other: str, of: FieldType) -> str:
    if of.name != "decimal":
        return f"{one} + {other}"
    # For two operands of full precision Spark would round the last digits of the sum, to have room for a carry.
    one, other = (f"cast({each} as decimal({MAX_DECIMAL - 1},{of.scale}))" for each in (one, other))
    return f"cast({one} + {other} as {of})"


def seed_of(column: str) -> str:
    """Return SQL for a column of a seed."""
    return f"`{SEED}`.`{column}`"


def coalesced(merged: str, events: str, seeds: str) -> str:
    """Return SQL for `merged`, or for the one aggregate that is not NULL. Spark computes each once."""
    return f"coalesce({merged}, {events}, {seeds})"


def spark_order(value: Any) -> Any:
    """Return a key by which values have Spark's order."""
    # Spark orders NaN above every number; in Python the result would depend on the order of the arguments.
    nan = value != value  # noqa: PLR0124
    return (nan, 0 if nan else value)


def extreme(order: str) -> tuple[str, Callable[[Any, Any], Any]]:
    """Return Spark's function for the lesser or greater of two values that may be NULL, and the same in Python, of
    values that are not. `order`: min or max."""
    choose = min if order == "min" else max
    return "least" if order == "min" else "greatest", lambda one, other: choose(one, other, key=spark_order)


# Python's default context would round sums to 28 digits. One digit more than the widest sum holds.
EXACT = Context(prec=MAX_DECIMAL + 1)
WIDE = Context(prec=120)
"""Holds the product of a number of events and a sum of squares, exactly."""


def add(one: Any, other: Any) -> Any:
    """Return the sum, in full precision."""
    return EXACT.add(one, other) if isinstance(one, Decimal) else one + other


def count_partial(column: str, field: str | None) -> Partial:
    # A seed is not an event: only events have an event time.
    both = f"count({field or '`__event_time`'}) + coalesce(sum({seed_of(column)}), 0L)"
    return Partial(column, "long", f"count({field or '*'})", both, lambda one, other: one + other)
