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
_PARSED, _VALUES, _DECODED = "__parsed", "__values", "__decoded"


def with_events(raw: DataFrame, job: Job, known: Sequence[WriterSchema]) -> DataFrame:
    """Kafka's columns and two more: `event`, a struct of the schema's fields, and `__reason`, why there is none.

    Exactly one of the two is NULL. `known` are the schemas that events may be written with; JSON needs none.
    """
    if job.format.kind == JSON:
        return _from_json(raw, job)
    mark = _mark(job.event_schema)
    parsed = raw.selectExpr("*", f"{_avro_by_header(_marked(job.event_schema, mark), known)} as {_PARSED}")
    reason = (
        f"case when value is null then {text(NO_VALUE)} when {_PARSED} is null then {text(UNKNOWN_SCHEMA)} "
        f"when {_PARSED}.{name(mark)} is null then {text(UNDECODABLE)} end"
    )
    whole = _PARSED if mark != _DECODED else f"struct({', '.join(_fields(_PARSED, job))})"
    return _finished(parsed.selectExpr("*", f"{reason} as {REASON}"), raw.columns, whole)


def _mark(schema: dict[str, Any]) -> str:
    """A field that is never NULL in an event.

    Spark gives a record that it cannot decode as a struct of NULLs, which a real event may be too. Where all
    fields may be NULL the reader's schema gets one more, with a default that no writer overrides.
    """
    for one in schema["fields"]:
        if one["type"] != "null" and not (isinstance(one["type"], list) and "null" in one["type"]):
            return str(one["name"])
    return _DECODED


def _marked(schema: dict[str, Any], mark: str) -> dict[str, Any]:
    extra = [{"name": _DECODED, "type": "boolean", "default": True}] if mark == _DECODED else []
    return {**schema, "fields": [*schema["fields"], *extra]}


def _avro_by_header(reader: dict[str, Any], known: Sequence[WriterSchema]) -> str:
    """A struct of the reader's fields, which Avro resolves from the writer's; NULL for an unknown header."""
    options = f"map('mode', 'PERMISSIVE', 'avroSchema', {text(json.dumps(reader))})"
    branches = "".join(
        f" when substring(value, 1, {len(one.header)}) = {binary(one.header)} then "
        f"from_avro(substring(value, {len(one.header) + 1}), {text(json.dumps(one.schema))}, {options})"
        for one in known
    )
    return f"case{branches} end"


def _from_json(raw: DataFrame, job: Job) -> DataFrame:
    fields = jsonformat.json_fields(job.event_schema)
    parsed = raw.selectExpr("*", f"{jsonformat.parse('value', fields)} as {_PARSED}")
    values = parsed.selectExpr("*", f"{jsonformat.values(_PARSED, fields)} as {_VALUES}")
    reason = (
        f"case when value is null then {text(NO_VALUE)} "
        f"when {jsonformat.unfit('value', _PARSED, _VALUES, fields)} then {text(UNDECODABLE)} end"
    )
    return _finished(values.selectExpr("*", f"{reason} as {REASON}"), raw.columns, _VALUES)


def _fields(struct: str, job: Job) -> list[str]:
    return [f"{struct}.{name(one['name'])}" for one in job.event_schema["fields"]]


def _finished(frame: DataFrame, columns: Sequence[str], whole: str) -> DataFrame:
    """`columns`, the event where there is no reason against it, and the reason."""
    event = f"case when {REASON} is null then {whole} end as {EVENT}"
    return frame.selectExpr(*(name(column) for column in columns), event, REASON)
