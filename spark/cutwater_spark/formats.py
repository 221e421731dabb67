"""From the bytes of a Kafka record to an event, in each format: native expressions only.

Whatever wrote it, an event has the types of the job's own schema, and either it is whole or there is a reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from cutwater.adapters.avro import HEADER_BYTES, MARKER
from cutwater.core.formats import (
    CONFLUENT,
    CONFLUENT_HEADER_BYTES,
    JSON,
    WriterSchema,
)
from cutwater.core.job import Job
from cutwater.core.rejection import NO_VALUE, UNDECODABLE, UNKNOWN_SCHEMA
from cutwater_spark import jsonformat
from cutwater_spark.sql import binary, name, text

EVENT, REASON = "event", "__reason"
_PARSED, _VALUES = "__parsed", "__values"
# Behind the body, so that an event that ends too late or too early does not find it. No prefix of it is a suffix.
_TAIL = bytes(range(0xF0, 0xF8))
# What a framed value begins with, and the least bytes of its header; anything else was never framed so.
_FRAMED_AVRO = f"substring(value, 1, {len(MARKER)}) = {binary(MARKER)} and octet_length(value) >= {HEADER_BYTES}"
_FRAMED_CONFLUENT = f"substring(value, 1, 1) = X'00' and octet_length(value) >= {CONFLUENT_HEADER_BYTES}"


def with_events(raw: DataFrame, job: Job, known: Sequence[WriterSchema]) -> DataFrame:
    """Kafka's columns and two more: `event`, a struct of the schema's fields, and `__reason`, why there is none.

    Exactly one of the two is NULL. `known` are the schemas that events may be written with; JSON needs none.
    """
    if job.format.kind == JSON:
        return _from_json(raw, job)
    parsed = raw.selectExpr("*", f"{_avro_by_header(job.event_schema, known)} as {_PARSED}")
    framed = _FRAMED_CONFLUENT if job.format.kind == CONFLUENT else _FRAMED_AVRO
    reason = (
        f"case when value is null then {text(NO_VALUE)} when {_PARSED}.tail = {binary(_TAIL)} then null "
        f"when {_PARSED} is null and {framed} then {text(UNKNOWN_SCHEMA)} else {text(UNDECODABLE)} end"
    )
    return _finished(parsed.selectExpr("*", f"{reason} as {REASON}"), raw.columns, f"{_PARSED}.event")


def _avro_by_header(reader: dict[str, Any], known: Sequence[WriterSchema]) -> str:
    """Struct (event: the reader's fields, resolved by Avro from the writer's; tail); NULL for an unknown header.

    Spark gives a record that it cannot decode as a struct of NULLs, which a real event may be too, and does not
    see bytes behind its end. So the event is read inside a record of ours, which ends with bytes of ours.
    """
    options = f"map('mode', 'PERMISSIVE', 'avroSchema', {text(json.dumps(_framed(reader)))})"
    branches = "".join(
        f" when substring(value, 1, {len(one.header)}) = {binary(one.header)} then "
        f"from_avro(concat(substring(value, {len(one.header) + 1}), {binary(_TAIL)}), "
        f"{text(json.dumps(_framed(one.schema)))}, {options})"
        for one in known
    )
    return f"case{branches} end"


def _framed(schema: dict[str, Any]) -> dict[str, Any]:
    tail = {"type": "fixed", "name": "CutwaterTail", "size": len(_TAIL)}
    fields = [{"name": "event", "type": schema}, {"name": "tail", "type": tail}]
    return {"type": "record", "name": "CutwaterFrame", "fields": fields}


def _from_json(raw: DataFrame, job: Job) -> DataFrame:
    fields = jsonformat.json_fields(job.event_schema)
    parsed = raw.selectExpr("*", f"{jsonformat.parse('value', fields)} as {_PARSED}")
    values = parsed.selectExpr("*", f"{jsonformat.values(_PARSED, fields)} as {_VALUES}")
    reason = (
        f"case when value is null then {text(NO_VALUE)} "
        f"when {jsonformat.unfit('value', _PARSED, _VALUES, fields)} then {text(UNDECODABLE)} end"
    )
    return _finished(values.selectExpr("*", f"{reason} as {REASON}"), raw.columns, _VALUES)


def _finished(frame: DataFrame, columns: Sequence[str], whole: str) -> DataFrame:
    """`columns`, the event where there is no reason against it, and the reason."""
    event = f"case when {REASON} is null then {whole} end as {EVENT}"
    return frame.selectExpr(*(name(column) for column in columns), event, REASON)
