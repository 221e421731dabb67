"""From the bytes of a Kafka record to an event, in each format: native expressions only.

Whatever wrote it, an event has the types of the job's own schema, and either it is whole or there is a reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from cutwater.core.alignment import aligned
from cutwater.core.compatibility import reading
from cutwater.core.formats import JSON, WriterSchema
from cutwater.core.job import Job
from cutwater.core.rejection import NO_VALUE, UNDECODABLE, UNKNOWN_SCHEMA
from cutwater_spark import avrodecimals, jsonformat
from cutwater_spark.flaws import FLAW, Flaw, cases, flaw
from cutwater_spark.framings import FRAMED, foreign
from cutwater_spark.sql import binary, name, text

EVENT, REASON = "event", "__reason"
RULE_CHARS_MAX = 500
_PARSED = "__parsed"
# Behind the body, so that an event that ends too late or too early does not find it. No prefix of it is a suffix.
_TAIL = bytes(range(0xF0, 0xF8))


def with_events(raw: DataFrame, job: Job, known: Sequence[WriterSchema], explained: bool = False) -> DataFrame:
    """Kafka's columns and two more: `event`, a struct of the schema's fields, and `__reason`, why there is none.

    Exactly one of the two is NULL. `known` are the schemas that events may be written with; JSON needs none.
    `explained`: a third column, `__flaw`, says field and rule of what is no event.
    """
    if job.format.kind == JSON:
        values = jsonformat.with_values(raw, job)
        return _finished(values, raw.columns, jsonformat.VALUES, jsonformat.flaws(job), explained)
    wide = avrodecimals.wide(job.event_schema)
    reader = avrodecimals.widened(job.event_schema, wide)
    named = [replace(one, schema=aligned(one.schema, job.event_schema)) for one in known]
    parsed = raw.selectExpr("*", f"{_avro_by_header(reader, named)} as {_PARSED}")
    framed = f"{_PARSED} is null and {FRAMED[job.format.kind]}"
    whole = f"coalesce({_PARSED}.tail = {binary(_TAIL)}, false)"
    flaws = [
        flaw("value is null", NO_VALUE, "the record has no value"),
        *_refused(job, known),
        *(flaw(f"{_PARSED} is null and {when}", UNDECODABLE, rule) for when, rule in foreign(job.format.kind)),
        flaw(framed, UNKNOWN_SCHEMA, "is framed by a schema that the job does not know"),
        flaw(f"{_PARSED} is null", UNDECODABLE, f"is not framed as {job.format.kind}"),
        flaw(
            f"not {whole}",
            UNDECODABLE,
            "is damaged, cut short, has bytes behind its end, or no reader's schema fits",
        ),
    ]
    flaws += avrodecimals.flaws(f"{_PARSED}.event", wide)
    event = avrodecimals.narrowed(f"{_PARSED}.event", job.event_schema, wide)
    return _finished(parsed, raw.columns, event, flaws, explained)


def _avro_by_header(reader: dict[str, Any], known: Sequence[WriterSchema]) -> str:
    """Struct (event: the reader's fields, resolved by Avro from the writer's; tail); NULL for an unknown header.

    Spark gives a record that it cannot decode as a struct of NULLs, which a real event may be too, and does not
    see bytes behind its end. So the event is read inside a record of ours, which ends with bytes of ours.
    """
    options = f"map('mode', 'PERMISSIVE', 'avroSchema', {text(json.dumps(_framed(reader)))})"
    branches = "".join(
        f" when {_headed(one)} then "
        f"from_avro(concat(substring(value, {len(one.header) + 1}), {binary(_TAIL)}), "
        f"{text(json.dumps(_framed(one.schema)))}, {options})"
        for one in known
    )
    return f"case{branches} end"


def _refused(job: Job, known: Sequence[WriterSchema]) -> Iterator[Flaw]:
    """Events of schemas that Avro would read as other values: it would not say so."""
    for one in known:
        if why := reading(one.schema, job.event_schema).otherwise:
            yield flaw(_headed(one), UNDECODABLE, f"is of schema {one.name}: {'; '.join(why)}"[:RULE_CHARS_MAX])


def _headed(one: WriterSchema) -> str:
    return f"substring(value, 1, {len(one.header)}) = {binary(one.header)}"


def _framed(schema: dict[str, Any]) -> dict[str, Any]:
    tail = {"type": "fixed", "name": "CutwaterTail", "size": len(_TAIL)}
    fields = [{"name": "event", "type": schema}, {"name": "tail", "type": tail}]
    return {"type": "record", "name": "CutwaterFrame", "fields": fields}


def _finished(
    frame: DataFrame, columns: Sequence[str], whole: str, flaws: Sequence[Flaw], explained: bool
) -> DataFrame:
    """`columns`, the event where there is no flaw in it, and the reason of the first one."""
    about = [f"{cases(flaws, lambda one: one.said)} as {FLAW}"] if explained else []
    judged = frame.selectExpr("*", f"{cases(flaws, lambda one: one.reason)} as {REASON}", *about)
    event = f"case when {REASON} is null then {whole} end as {EVENT}"
    return judged.selectExpr(*(name(column) for column in columns), event, REASON, *([FLAW] if explained else []))
