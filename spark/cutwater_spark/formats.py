"""From the bytes of a Kafka record to an event, in each format: native expressions only.

Whatever wrote it, an event has the types of the job's own schema, and either it is whole or there is a reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from cutwater.core.formats import JSON, NO_VALUE, UNDECODABLE, UNKNOWN_SCHEMA, WriterSchema
from cutwater.core.job import Job
from cutwater_spark import jsonformat
from cutwater_spark.sql import binary, name, text

EVENT, REASON = "event", "__reason"
_PARSED, _DECODED = "__parsed", "__decoded"


def with_events(raw: DataFrame, job: Job, known: Sequence[WriterSchema]) -> DataFrame:
    """Kafka's columns and two more: `event`, a struct of the schema's fields, and `__reason`, why there is none.

    Exactly one of the two is NULL. `known` are the schemas that events may be written with; JSON needs none.
    """
    if job.format.kind == JSON:
        return _from_json(raw, job)
    parsed = raw.selectExpr("*", f"{_avro_by_header(job.event_schema, known)} as {_PARSED}")
    reason = (
        f"case when value is null then {text(NO_VALUE)} when {_PARSED} is null then {text(UNKNOWN_SCHEMA)} "
        f"when {_PARSED}.{_DECODED} is null then {text(UNDECODABLE)} end"
    )
    return _finished(parsed.selectExpr("*", f"{reason} as {REASON}"), raw.columns, job, _PARSED)


def _avro_by_header(reader: dict[str, Any], known: Sequence[WriterSchema]) -> str:
    """A struct of the reader's fields and a mark; NULL for a header that is not known.

    Avro resolves the writer's schema into the reader's. Spark gives a record that it cannot decode as a struct
    of NULLs, which a real one may be too, so the reader's schema gets a field whose default is always there.
    """
    mark = {"name": _DECODED, "type": "boolean", "default": True}
    options = f"map('mode', 'PERMISSIVE', 'avroSchema', {text(json.dumps(_marked(reader, mark)))})"
    branches = "".join(
        f" when substring(value, 1, {len(one.header)}) = {binary(one.header)} then "
        f"from_avro(substring(value, {len(one.header) + 1}), {text(json.dumps(one.schema))}, {options})"
        for one in known
    )
    return f"case{branches} end"


def _marked(schema: dict[str, Any], mark: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "fields": [*schema["fields"], mark]}


def _from_json(raw: DataFrame, job: Job) -> DataFrame:
    fields = jsonformat.json_fields(job.event_schema)
    parsed = raw.selectExpr("*", f"{jsonformat.parse('value', fields)} as {_PARSED}")
    values = parsed.selectExpr("*", f"{jsonformat.values(_PARSED, fields)} as __values")
    reason = (
        f"case when value is null then {text(NO_VALUE)} "
        f"when {jsonformat.unfit('value', _PARSED, '__values', fields)} then {text(UNDECODABLE)} end"
    )
    return _finished(values.selectExpr("*", f"{reason} as {REASON}"), raw.columns, job, "__values")


def _finished(frame: DataFrame, columns: Sequence[str], job: Job, struct: str) -> DataFrame:
    """`columns`, the event where there is no reason against it, and the reason."""
    fields = ", ".join(f"{struct}.{name(one['name'])}" for one in job.event_schema["fields"])
    event = f"case when {REASON} is null then struct({fields}) end as {EVENT}"
    return frame.selectExpr(*(name(column) for column in columns), event, REASON)
