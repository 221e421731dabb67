"""From the bytes of a Kafka record to an event, in each format: native expressions only.

An event has the types of the job's schema, for every writer schema, and is complete; otherwise there is a reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from cutwater.core.events.formats import (
    CONFLUENT_PROTOBUF,
    DAMAGED,
    JSON_FORMATS,
    NO_SUCH_SCHEMA,
    NOT_FRAMED,
    WriterSchema,
)
from cutwater.core.events.reader_schema import reader_schema
from cutwater.core.events.rejection import NO_VALUE, NO_VALUE_RULE, UNDECODABLE, UNKNOWN_SCHEMA
from cutwater.core.events.schema_alignment import aligned
from cutwater.core.events.schema_bounds import unroll_recursion
from cutwater.core.events.schema_compatibility import refusal
from cutwater.core.job.job import Job
from cutwater_spark.query import avro_corrections, json_format
from cutwater_spark.query.format_detection import is_framed, other_format_rules
from cutwater_spark.query.protobuf import decoder
from cutwater_spark.query.rejection_reasons import FLAW, RULE_CHARS_MAX, Flaw, cases, flaw
from cutwater_spark.query.sql import binary, name, text

EVENT, REASON, REMARK = "event", "__reason", "__remark"
_PARSED = "__parsed"
# After the body: an event that ends too early or too late does not match it. No prefix of it is a suffix.
_TAIL = bytes(range(0xF0, 0xF8))


def with_events(raw: DataFrame, job: Job, known: Sequence[WriterSchema], explained: bool = False) -> DataFrame:
    """Add to Kafka's columns `event`, a struct of the schema's fields, and `__reason`, why there is none.

    Exactly one of the two is NULL. `__remark`: whether an event was read in part (JSON with a name twice, Avro
    with an enum symbol unknown to the job's schema). `known`: the schemas that events may be written with; none
    for plain JSON. `explained`: add the column `__flaw`, field and rule of a rejected record.
    """
    if job.format.kind in JSON_FORMATS:
        values = json_format.with_values(raw, job, known)
        flaws = json_format.flaws(job, known)
        return _with_reason(values, raw.columns, json_format.VALUES, flaws, json_format.repeats(job), explained)
    if job.format.kind == CONFLUENT_PROTOBUF:
        messages = decoder.with_messages(raw, job, known)
        flaws = decoder.message_flaws(known)
        return _with_reason(messages, raw.columns, decoder.event_of(job), flaws, "false", explained)
    refused = [refusal(one, job.event_schema) for one in known]
    unread = [
        flaw(_headed(one), UNDECODABLE, why[:RULE_CHARS_MAX])
        for one, why in zip(known, refused, strict=True)
        if why
    ]
    # Events of the other schemas are decoded before the flaws are evaluated.
    known = [one for one, why in zip(known, refused, strict=True) if not why]
    reader, correction = reader_schema(job.event_schema, (one.schema for one in known))
    named = [replace(one, schema=aligned(one.schema, job.event_schema)) for one in known]
    parsed = raw.selectExpr("*", f"{_avro_by_header(reader, named)} as {_PARSED}")
    framed = f"{_PARSED} is null and {is_framed(job.format.kind)}"
    tail = _tail_of(reader)
    whole = f"coalesce({_PARSED}.{tail} = {binary(_TAIL)}, false)"
    flaws = [
        flaw("value is null", NO_VALUE, NO_VALUE_RULE),
        *unread,
        *(
            flaw(f"{_PARSED} is null and {when}", UNDECODABLE, rule)
            for when, rule in other_format_rules(job.format.kind)
        ),
        flaw(framed, UNKNOWN_SCHEMA, NO_SUCH_SCHEMA),
        flaw(f"{_PARSED} is null", UNDECODABLE, NOT_FRAMED.format(job.format.kind)),
        *_too_deep(named, whole),
        flaw(f"not {whole}", UNDECODABLE, DAMAGED),
    ]
    flaws += avro_corrections.flaws(_PARSED, correction)
    fields = ", ".join(f"{text(one['name'])}, {_PARSED}.{name(one['name'])}" for one in reader["fields"])
    read = avro_corrections.value_of(_PARSED, correction) if correction else f"named_struct({fields})"
    remark = avro_corrections.has_unknown(_PARSED, correction)
    return _with_reason(parsed, raw.columns, read, flaws, remark, explained)


def _avro_by_header(reader: dict[str, Any], known: Sequence[WriterSchema]) -> str:
    """Return a struct of the reader's fields, resolved by Avro, and a tail; NULL for an unknown header.

    Spark returns an undecodable record as a struct of NULLs, which a real event may be too, and ignores bytes
    after its end. So the event is read with a last field of known bytes. It is a field of the event's own record:
    Spark makes a new row of each record inside of another, which takes as long as all the rest of decoding.
    """
    tail = _tail_of(reader)
    options = f"map('mode', 'PERMISSIVE', 'avroSchema', {text(json.dumps(_with_tail(reader, tail)))})"
    branches = "".join(f" when {_headed(one)} then {_from_avro(one, options, tail)}" for one in known)
    # Without any schema the result is NULL, of this type.
    none = f" when false then {_from_avro(WriterSchema(b'', reader, ''), options, tail)}"
    return f"case{branches or none} end"


def _from_avro(one: WriterSchema, options: str, tail: str) -> str:
    found, body = unroll_recursion(one.schema), f"substring(value, {len(one.header) + 1})"
    schema, parts = _with_tail(found.schema, tail), [body, binary(_TAIL)]
    if found.types:
        # A field that is always null, one byte, defines the named types that the event uses.
        schema["fields"].insert(0, {"name": "types", "type": ["null", *found.types]})
        parts.insert(0, binary(b"\0"))
    return f"from_avro(concat({', '.join(parts)}), {text(json.dumps(schema))}, {options})"


def _too_deep(known: Sequence[WriterSchema], whole: str) -> Iterator[Flaw]:
    """Yield flaws of events that nest deeper than a recursive schema is read."""
    for one in known:
        if levels := unroll_recursion(one.schema).levels:
            rule = f"{DAMAGED}; or it has more than {levels:,} levels of a recursive type"
            yield flaw(f"{_headed(one)} and not {whole}", UNDECODABLE, rule)


def _headed(one: WriterSchema) -> str:
    return f"substring(value, 1, {len(one.header)}) = {binary(one.header)}"


def _with_tail(record: dict[str, Any], tail: str) -> dict[str, Any]:
    type_ = {"type": "fixed", "name": "CutwaterTail", "namespace": "io.cutwater", "size": len(_TAIL)}
    return {**record, "fields": [*record["fields"], {"name": tail, "type": type_}]}


def _tail_of(reader: dict[str, Any]) -> str:
    """Return a name that no field of the reader has; fields of writers are matched by their names only."""
    taken = {one["name"].lower() for one in reader["fields"]}
    return next(one for one in (f"cutwater_tail{'_' * at}" for at in range(len(taken) + 1)) if one not in taken)


def _with_reason(
    frame: DataFrame, columns: Sequence[str], whole: str, flaws: Sequence[Flaw], remark: str, explained: bool
) -> DataFrame:
    """Return `columns`, the event if it has no flaw, the first flaw's reason, and the remark."""
    about = [f"{cases(flaws, lambda one: one.detail)} as {FLAW}"] if explained else []
    judged = frame.selectExpr("*", f"{cases(flaws, lambda one: one.reason)} as {REASON}", *about)
    event = f"case when {REASON} is null then {whole} end as {EVENT}"
    shown = (event, REASON, f"{REASON} is null and ({remark}) as {REMARK}", *([FLAW] if explained else []))
    return judged.selectExpr(*(name(column) for column in columns), *shown)
