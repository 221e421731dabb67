"""The most frequent values of a field, with a bound of their error.

Spark counts with a frequent-items sketch of Apache DataSketches, in which a fixed number of values have a counter.
A row keeps the counters themselves, and one error. A count is the least number of events that had the value; the
true number is at most the error above it. A value without a counter had at most `error` events. As long as all
values of a row have counters the error is 0, and the counts are exact. Counters are in the order of their values,
so exact rows have the same bytes whatever the order of events and merges.

Two rows merge as in Agarwal and others (Mergeable Summaries, 2012): counts add, and if more values are left than a
row keeps, the largest count that has no place is taken from all of them, and added to the error.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.job.measures import COUNTABLE, Declaration, Measure, Partial, Partials, coalesced, seed_of

TOP = "top"
ITEMS_MAX = 100
FREQUENT = COUNTABLE - {"bytes"}
_LEAST_MAP = 256
"""Counters of a sketch: with 256 the error is at most 2.8 % of the events."""
_COUNTERS = 20
"""The least number of a sketch's counters for each value that users see."""
_OFFSET_AT = 25
"""Where the bytes of a sketch have its error, a little-endian long; the first byte is 1, as in SQL."""
_SPARK_TYPES = {"string": "string", "int": "int", "long": "bigint"}


def top(declared: Declaration) -> Measure:
    name, field, of, items = declared.name, str(declared.field), declared.of, declared.items
    if not 1 <= items <= ITEMS_MAX:
        raise UsageError(f"measure '{name}': items is {items}; allowed: 1 to {ITEMS_MAX}")
    kept = kept_values(items)
    pair = {"value": of.avro, "count": "long"}
    record = {
        "type": "record",
        "name": f"{name}_top",
        "fields": [
            {"name": "error", "type": "long"},
            {"name": "values", "type": {"type": "array", "items": _record(f"{name}_counted", pair)}},
        ],
    }
    events = _over_events(field, _SPARK_TYPES[of.name], kept)
    seeds = f"max({seed_of(name)})"
    both = coalesced(_merged_sql(events, seeds, kept), events, seeds)

    def merge(one: Any, other: Any) -> Any:
        return merge_counts(one, other, kept)

    def present(row: Partials) -> list[dict[str, Any]] | None:
        found = row[name]
        if found is None:
            return None
        # Sorting is stable: of equally frequent values the least is first.
        ordered = sorted(found["values"], key=lambda one: -one["count"])
        return [{**one, "error": found["error"]} for one in ordered[:items]]

    output = {"type": "array", "items": _record(f"{name}_item", {**pair, "error": "long"})}
    return Measure(
        name, TOP, (Partial(name, record, events, both, merge, one_seed=True),), present, output, length=items
    )


def kept_values(items: int) -> int:
    """Return how many values a row keeps at most, if users see `items` of them."""
    return _map_size(items) * 3 // 4


def kept_texts(measure: Measure) -> int:
    """Return how many texts of events a row keeps for this measure, if it is a `top`."""
    is_text = measure.kind == TOP and measure.output["items"]["fields"][0]["type"] == "string"
    return kept_values(measure.length) if is_text else 0


def merge_counts(one: Partials, other: Partials, kept: int) -> dict[str, Any]:
    """Return the counters of both, of at most `kept` values; the order of the two makes no difference."""
    counts: Counter[Any] = Counter()
    for item in (*one["values"], *other["values"]):
        counts[item["value"]] += item["count"]
    cut = sorted(counts.values(), reverse=True)[kept] if len(counts) > kept else 0
    left = [{"value": value, "count": counts[value] - cut} for value in sorted(counts) if counts[value] > cut]
    return {"error": one["error"] + other["error"] + cut, "values": left}


def _map_size(items: int) -> int:
    return max(_LEAST_MAP, 1 << (_COUNTERS * items - 1).bit_length())


def _record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    listed = [{"name": field, "type": type_} for field, type_ in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


def _over_events(field: str, type_: str, kept: int) -> str:
    """Return SQL for the counters of the events: those of Spark's sketch that stand out of its error."""
    sketch = f"approx_top_k_accumulate({field}, {kept}).sketch"
    state = (
        f"named_struct('sketch', {sketch}, 'maxItemsTracked', {kept + 1}, "
        f"'itemDataType', cast(null as {type_}), 'itemDataTypeDDL', 'item {type_} not null')"
    )
    little = ", ".join(f"substring({sketch}, {at}, 1)" for at in range(_OFFSET_AT + 7, _OFFSET_AT - 1, -1))
    offset = f"cast(conv(hex(concat({little})), 16, 10) as bigint)"
    # Nulls are counted, too, beside the sketch. A value may be missing if its counter is not above the offset; so
    # its events are at most twice the offset, which an estimate has in addition.
    named = "transform(filter(b.found, x -> x.item is not null), x -> named_struct('value', x.item, 'count', "
    counted = f"sort_array({named}x.count - b.offset)))"
    bound = f"named_struct('offset', {offset}, 'found', approx_top_k_estimate({state}, {kept + 1}))"
    return (
        f"case when count({field}) > 0 then "
        f"{_let('b', bound, f'named_struct({_ERROR}, 2L * b.offset, {_VALUES}, {counted})')} end"
    )


_ERROR, _VALUES = "'error'", "'values'"


def _merged_sql(one: str, other: str, kept: int) -> str:
    """Return SQL for what `merge_counts` returns."""
    sides = f"named_struct('one', {one}, 'other', {other})"
    added = (
        "map_zip_with(map_from_entries(b.one.values), map_from_entries(b.other.values), "
        "(k, x, y) -> coalesce(x, 0L) + coalesce(y, 0L))"
    )
    cut = f"coalesce(get(sort_array(map_values(m), false), {kept}), 0L)"
    left = (
        "sort_array(transform(filter(map_entries(c.counts), e -> e.value > c.cut), "
        "e -> named_struct('value', e.key, 'count', e.value - c.cut)))"
    )
    whole = f"named_struct({_ERROR}, b.one.error + b.other.error + c.cut, {_VALUES}, {left})"
    counts = _let("m", added, f"named_struct('counts', m, 'cut', {cut})")
    return _let("b", sides, f"if(b.one is null or b.other is null, null, {_let('c', counts, whole)})")


def _let(name: str, value: str, body: str) -> str:
    """Return SQL for `body`, in which `name` is `value`, computed once."""
    return f"element_at(transform(array({value}), {name} -> {body}), 1)"
