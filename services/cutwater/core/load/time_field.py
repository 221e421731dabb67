"""The field of an event that its event time comes from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.events.avro_types import Schema
from cutwater.core.job.field_paths import PathTarget, Steps, bare, find_target, kind_of, parse_path
from cutwater.core.job.job import Job
from cutwater.core.load.value_draw import UNITS_US

TEXT, SECONDS, MILLIS, MICROS = "text", "s", "ms", "us"
TIME_FORMS = {SECONDS: 1_000_000, MILLIS: 1_000, MICROS: 1}
"""Units of an event time that is a plain number, in microseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TimeField:
    """`path`, `form`: where the event time is in an event, and its unit there, if the job file computes it by an
    expression. Raises UsageError if they are missing, or no such field."""

    def __init__(self, job: Job, path: str | None = None, form: str = MILLIS) -> None:
        schema = Schema.of(job.event_schema)
        found = column_field(job, schema, job.time_field) if path is None else _given(schema, path)
        if found is None:
            raise UsageError(
                f"the event time of job {job.name} is computed by an expression: name the field that it comes "
                f"from with --time-field, and its unit with --time-unit ({', '.join(TIME_FORMS)})"
            )
        self.steps: tuple[str, ...] = tuple(map(str, found.steps))
        self.value: Callable[[int], Any] = _value_of(found, schema, TIME_FORMS[form])
        """Returns the field's value for microseconds since 1970."""


def column_field(job: Job, schema: Schema, name: str) -> PathTarget | None:
    """Return the field that a column is; None if it is computed, or from inside of an array or map."""
    sql = next((one.sql for one in job.columns if one.name == name), None)
    if sql is None and name in {*job.column_types, *(one.name for one in job.element_columns)}:
        return None
    steps = (name,) if sql is None else parse_path(sql)
    return _in_records(schema, steps) if steps else None


def _given(schema: Schema, path: str) -> PathTarget:
    steps = parse_path(path)
    found = _in_records(schema, steps) if steps else None
    if found is None:
        raise UsageError(f"--time-field {path}: no field of the event, and none of a record inside of it")
    return found


def _in_records(schema: Schema, steps: Steps) -> PathTarget | None:
    """Return a path's end if it leads through records alone. Raises UsageError if there is no such field."""
    found = find_target(schema, steps[:1])
    for one in steps[1:]:
        if kind_of(schema, found.node) != "record":
            return None
        found = find_target(schema, (one,), found)
    return found


def plain_type(schema: Schema, node: Any) -> dict[str, Any]:
    """Return the type of a field's values that are not null; of a union of several the first."""
    inner = bare(node)
    return schema.type_of(inner[0] if isinstance(inner, list) else inner)


def _value_of(found: PathTarget, schema: Schema, unit: int) -> Callable[[int], Any]:
    avro = plain_type(schema, found.node)
    unit = UNITS_US.get(str(avro.get("logicalType")), unit)
    if avro["type"] == "string":
        return _iso
    if avro["type"] in ("float", "double"):
        return lambda at_us: at_us / unit
    if avro["type"] in ("int", "long"):
        return lambda at_us: at_us // unit
    raise UsageError(f"field '{found.path}' is of type {avro['type']}, which holds no time")


def _iso(at_us: int) -> str:
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")
