"""From a Kafka record to an event, or to the reason why there is none: native expressions only.

The contract, for every format of events: `decode` adds two columns to the raw records, `event` (a struct of the
job's event schema) and `__reason` (a word of `cutwater.core.rejection`). Exactly one of the two is null.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.sql import DataFrame

from cutwater.adapters.avro import HEADER_BYTES, MARKER, Codec
from cutwater.core import rejection
from cutwater.core.job import Job

# Behind the body, so that an event that ends too late or too early does not find it. No prefix of it is a suffix.
_TAIL = bytes(range(0xF0, 0xF8))
# Further out, a window of a century could begin or end outside the years 1 to 9999, which is all that readers in
# Python hold; and far outside of them Spark's own arithmetic overflows, which would end the query for ever.
_FIRST_TIME, _LAST_TIME = "0200-01-01 00:00:00", "9800-01-01 00:00:00"


@dataclass(frozen=True)
class Format:
    """How the values of one format become events, as SQL. `value` is not null and within the size."""

    decoded: str
    """Over `value`: anything that the other two need; computed once, as the column `__decoded`."""
    event: str
    """Over `__decoded`: the event as a struct, or null."""
    reason: str
    """Over `value` and `__decoded`: the reason why `event` is null, or null."""


def decode(raw: DataFrame, job: Job) -> DataFrame:
    """Raw Kafka records with the columns `event` and `__reason` added."""
    form = single_object(job)
    fits = f"value is not null and octet_length(value) <= {job.max_event_bytes}"
    key, time = f"{form.event}.`{job.key_field}`", f"{form.event}.`{job.time_field}`"
    reason = f"""case
        when value is null then '{rejection.NO_VALUE}'
        when octet_length(value) > {job.max_event_bytes} then '{rejection.TOO_LARGE}'
        when ({form.reason}) is not null then ({form.reason})
        when {form.event} is null then '{rejection.UNDECODABLE}'
        when {key} is null then '{rejection.NO_KEY}'
        when {time} is null then '{rejection.NO_EVENT_TIME}'
        when {time} < timestamp'{_FIRST_TIME}' or {time} > timestamp'{_LAST_TIME}' then '{rejection.UNDECODABLE}'
        when {time} > timestamp + make_dt_interval(0, 0, 0, {job.max_ahead_ms / 1000})
            then '{rejection.TOO_FAR_AHEAD}' end"""
    return (
        raw.selectExpr("*", f"case when {fits} then {form.decoded} end as __decoded")
        .selectExpr("*", f"{reason} as __reason")
        .selectExpr("*", f"case when __reason is null then {form.event} end as event")
        .drop("__decoded")
    )


def single_object(job: Job) -> Format:
    """Avro with single-object encoding, of the job's one event schema."""
    header = Codec(job.event_schema).header
    ours = f"substring(value, 1, {HEADER_BYTES}) = X'{header.hex()}'"
    # A struct that cannot be decoded comes back with every field null; inside a record of ours, it is null itself.
    framed = {
        "type": "record",
        "name": "CutwaterFrame",
        "fields": [
            {"name": "event", "type": job.event_schema},
            {"name": "tail", "type": {"type": "fixed", "name": "CutwaterTail", "size": len(_TAIL)}},
        ],
    }
    body = f"concat(substring(value, {HEADER_BYTES + 1}), X'{_TAIL.hex()}')"
    return Format(
        decoded=f"case when {ours} then from_avro({body}, {literal(json.dumps(framed))}, "
        "map('mode', 'PERMISSIVE')) end",
        event=f"case when __decoded.tail = X'{_TAIL.hex()}' then __decoded.event end",
        reason=f"""case when {ours} then null
            when substring(value, 1, {len(MARKER)}) = X'{MARKER.hex()}' and octet_length(value) >= {HEADER_BYTES}
            then '{rejection.UNKNOWN_SCHEMA}' else '{rejection.UNDECODABLE}' end""",
    )


def literal(value: str) -> str:
    """A string literal of Spark SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def single_object_bytes(record: str, codec: Codec) -> str:
    """A struct of Spark SQL as bytes: Avro with single-object encoding."""
    return f"concat(X'{codec.header.hex()}', to_avro({record}, {literal(json.dumps(codec.schema))}))"
