"""The kinds of measures, and how one is built from its declaration. Nulls are ignored, as in SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.job.kinds.averages import average
from cutwater.core.job.kinds.distinct import distinct
from cutwater.core.job.kinds.frequent_items import FREQUENT, top
from cutwater.core.job.kinds.histogram import histogram
from cutwater.core.job.kinds.moments import FACTOR_DIGITS, deviation, variance
from cutwater.core.job.kinds.positions import positioned
from cutwater.core.job.kinds.quantiles import quantile
from cutwater.core.job.measures import (
    ADDEND_DIGITS,
    COUNTABLE,
    HLL,
    LONG,
    LONG_DIGITS,
    MAX_DECIMAL,
    NUMBERS,
    ORDERED,
    TIMES,
    Declaration,
    FieldType,
    Limit,
    Measure,
    Partial,
    Sketches,
    count_partial,
    extreme,
    seed_of,
    sum_partial,
    sum_type,
)

Maker = Callable[[Declaration], Measure]


def _count(declared: Declaration) -> Measure:
    name = declared.name
    return Measure(name, "count", (count_partial(name, declared.field),), lambda row: row[name] or 0, "long")


def _sum(declared: Declaration) -> Measure:
    name, of = declared.name, declared.of
    return Measure(
        name, "sum", (sum_partial(name, str(declared.field), of),), lambda row: row[name], sum_type(of).avro
    )


def _extreme(order: str, kind: str = "") -> Maker:
    """`order`: min or max. `kind`: its name for booleans, of which false is the least."""
    closest, merge = extreme(order)

    def make(declared: Declaration) -> Measure:
        name, field, of = declared.name, declared.field, declared.of
        partial = Partial(
            name,
            of.avro,
            f"{order}({field})",
            f"{closest}({order}({field}), {order}({seed_of(name)}))",
            merge,
        )
        return Measure(name, kind or order, (partial,), lambda row: row[name], of.avro)

    return make


KINDS: dict[str, tuple[frozenset[str], Maker]] = {
    "count": (ORDERED | COUNTABLE, _count),
    "sum": (NUMBERS, _sum),
    "min": (ORDERED, _extreme("min")),
    "max": (ORDERED, _extreme("max")),
    "avg": (NUMBERS, average),
    "first": (ORDERED, positioned("first")),
    "last": (ORDERED, positioned("last")),
    "distinct": (COUNTABLE, distinct),
    "variance": (NUMBERS, variance),
    "stddev": (NUMBERS, deviation),
    "every": (frozenset({"boolean"}), _extreme("min", "every")),
    "any": (frozenset({"boolean"}), _extreme("max", "any")),
    "min_by": (ORDERED, positioned("min_by")),
    "max_by": (ORDERED, positioned("max_by")),
    "histogram": (NUMBERS, histogram),
    "quantile": (NUMBERS, quantile),
    "top": (FREQUENT, top),
}
PARAMETERS = {
    "min_by": "by",
    "max_by": "by",
    "histogram": "bounds",
    "quantile": "ranks",
    "top": "items",
    "avg": "scale",
    "distinct": "sketch",
}
"""The field of a declaration that a kind needs (`avg` and `distinct` may do without), and others must not have."""
_EXAMPLES = {"bounds": "[0, 15, 60]", "ranks": "[0.5, 0.99]", "items": "10"}
DECIDING = NUMBERS | TIMES
"""The types of the field that decides a `min_by` or `max_by`. A text would need room in the row of its own."""
_DIGITS = {"sum": ADDEND_DIGITS, "avg": ADDEND_DIGITS, "variance": FACTOR_DIGITS, "stddev": FACTOR_DIGITS}
"""Digits of one event's value, by kind; a (key, window) holds 10^9 events of so many."""

SYNONYMS = {
    **dict.fromkeys(("number", "count_events"), "count"),
    "total": "sum",
    **dict.fromkeys(("quantiles", "percentile", "percentiles", "approx_percentile"), "quantile"),
    **dict.fromkeys(("buckets", "distribution"), "histogram"),
    **dict.fromkeys(("topk", "top_k", "approx_top_k", "frequent_items", "most_frequent"), "top"),
    **dict.fromkeys(("minimum", "least", "smallest"), "min"),
    **dict.fromkeys(("maximum", "greatest", "largest"), "max"),
    **dict.fromkeys(("average", "mean"), "avg"),
    **dict.fromkeys(("earliest", "first_value"), "first"),
    **dict.fromkeys(("latest", "newest", "last_value"), "last"),
    **dict.fromkeys(("argmin", "arg_min", "minby"), "min_by"),
    **dict.fromkeys(("argmax", "arg_max", "maxby"), "max_by"),
    **dict.fromkeys(("var", "var_samp", "var_sample"), "variance"),
    **dict.fromkeys(("std", "stdev", "stddev_samp", "standard_deviation"), "stddev"),
    **dict.fromkeys(("all", "bool_and", "and"), "every"),
    **dict.fromkeys(("some", "bool_or", "or"), "any"),
    **dict.fromkeys(("unique", "count_distinct", "approx_count_distinct", "cardinality"), "distinct"),
}
"""Names of the kinds in other systems."""


class By(NamedTuple):
    """The field that decides a `min_by` or `max_by`."""

    field: str
    type: FieldType


def build(
    name: str,
    kind: str,
    field: str | None,
    field_type: FieldType | None,
    sketches: Sketches,
    by: By | None = None,
    bounds: tuple[float, ...] = (),
    ranks: tuple[float, ...] = (),
    items: int | None = None,
    exploded: bool = False,
    scale: int | None = None,
    sketch: str = HLL,
) -> Measure:
    """Return the measure of a declaration. Raises UsageError if kind, field, type and the rest do not match.

    `sketches`: of the kind `sketch`. `exploded`: events are the elements of arrays, so an event's place has its
    index.
    """
    if kind not in KINDS:
        raise UsageError(f"measure '{name}': '{kind}' is not a measure; allowed: {', '.join(KINDS)}")
    allowed, maker = KINDS[kind]
    if field is None or field_type is None:
        if kind != "count":
            raise UsageError(f"measure '{name}': {kind} needs a field")
        return maker(Declaration(name, None, LONG, sketches))
    if field_type.name not in allowed:
        raise UsageError(
            f"measure '{name}': {kind} of field '{field}', which is {field_type}; "
            f"allowed types: {', '.join(sorted(allowed))}"
        )
    declared = Declaration(
        name,
        f"`{field}`",
        field_type,
        sketches,
        bounds=bounds,
        ranks=ranks,
        items=items or 0,
        exploded=exploded,
        scale=scale,
        sketch=sketch,
    )
    needed = PARAMETERS.get(kind, "")
    if needed in _EXAMPLES and {"bounds": bounds, "ranks": ranks, "items": items}[needed] in ((), None):
        raise UsageError(f"measure '{name}': {kind} needs '{needed}', as in {_EXAMPLES[needed]}")
    if needed == "by":
        if by is None:
            raise UsageError(f"measure '{name}': {kind} needs 'by', the field that decides")
        if by.type.name not in DECIDING:
            raise UsageError(
                f"measure '{name}': {kind} by field '{by.field}', which is {by.type}; "
                f"allowed types: {', '.join(sorted(DECIDING))}"
            )
        declared = declared._replace(by=f"`{by.field}`", by_type=by.type)
    made = replace(maker(declared), field=field)
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
