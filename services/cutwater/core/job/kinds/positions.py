"""The value of one event, chosen by its place: `first` and `last`, `min_by` and `max_by`.

The partial is the value with its place, so that min and max merge it. `first` and `last` order by (event time,
origin, partition, offset, and index if events are the elements of arrays). `min_by` and `max_by` order by another
field first, and of equal ones by that order: `min_by` has the first of them, `max_by` the last. The order is
total, so a replay gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutwater.core.job.measures import (
    BY,
    INDEX,
    ORDER_FIELDS,
    Declaration,
    FieldType,
    Measure,
    Partial,
    seed_of,
    spark_order,
)

EVENT_TIME_ALIAS = "`__event_time` as event_time"
_PLACE = f"{EVENT_TIME_ALIAS}, `__origin` as origin, `__partition` as partition, `__offset` as offset"
_PLACE_TYPES = {
    "event_time": FieldType("timestamp-micros").avro,
    "origin": "string",
    "partition": "int",
    "offset": "long",
}


def positioned(kind: str) -> Callable[[Declaration], Measure]:
    choose, closest = (min, "least") if kind in ("first", "min_by") else (max, "greatest")
    aggregate, decides = choose.__name__, kind.endswith("_by")

    def order(value: Any) -> Any:
        deciding = (spark_order(value[BY]),) if decides else ()
        return (*deciding, *(value[part] for part in ORDER_FIELDS), value.get(INDEX, 0))

    def make(declared: Declaration) -> Measure:
        name, field, of, by = declared.name, declared.field, declared.of, declared.by
        types = {BY: declared.by_type.avro} if decides else {}
        types |= {**_PLACE_TYPES, **({INDEX: "int"} if declared.exploded else {}), "value": of.avro}
        record = {
            "type": "record",
            "name": f"{name}_by" if decides else f"{name}_at",
            "fields": [{"name": part, "type": type_} for part, type_ in types.items()],
        }
        there = f"{field} is not null" + (f" and {by} is not null" if decides else "")
        place = f"{by} as {BY}, {_PLACE}" if decides else _PLACE
        place += f", `__index` as {INDEX}" if declared.exploded else ""
        over = f"{aggregate}(case when {there} then struct({place}, {field} as value) end)"
        partial = Partial(
            name,
            record,
            over,
            f"{closest}({over}, {aggregate}({seed_of(name)}))",
            lambda one, other: choose(one, other, key=order),
        )
        return Measure(name, kind, (partial,), lambda row: row[name]["value"] if row[name] else None, of.avro)

    return make
