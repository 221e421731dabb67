"""Protobuf events behind a registry's framing: which schema and message a record is of, and what it says.

A message becomes Avro's bytes of the same event, which Spark reads as those of every Avro event.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame

from cutwater.core.events.formats import CONFLUENT_PROTOBUF, WriterSchema
from cutwater.core.events.protobuf.fields import OTHER_MESSAGE, protobuf_fields
from cutwater.core.events.protobuf.message_index import headers_of
from cutwater.core.events.rejection import NO_VALUE, NO_VALUE_RULE, UNDECODABLE
from cutwater.core.job.job import Job
from cutwater_spark.query.format_detection import other_schema_flaws
from cutwater_spark.query.protobuf.transcoder import register_transcoder
from cutwater_spark.query.rejection_reasons import Flaw, flaw
from cutwater_spark.query.sql import binary, text

_BODY, _AVRO = "__message", "__avro"


def with_messages(raw: DataFrame, job: Job, known: Sequence[WriterSchema]) -> DataFrame:
    """Add columns: the body of a record of a known schema; its event as Avro writes it, and its first flaw."""
    transcode = register_transcoder(raw.sparkSession, protobuf_fields(job.event_schema))
    return raw.selectExpr("*", f"{_body(known)} as {_BODY}").selectExpr("*", f"{transcode}({_BODY}) as {_AVRO}")


def event_of(job: Job) -> str:
    """Return the struct of an event's fields, as SQL over these columns."""
    return f"from_avro({_AVRO}.event, {text(json.dumps(job.event_schema))})"


def message_flaws(known: Sequence[WriterSchema]) -> list[Flaw]:
    """Return the flaws of a record, as SQL over these columns."""
    detail = f"named_struct('field', nullif(substring({_AVRO}.path, 2), ''), 'rule', {_AVRO}.rule)"
    return [
        flaw("value is null", NO_VALUE, NO_VALUE_RULE),
        *other_schema_flaws(CONFLUENT_PROTOBUF, known),
        flaw(f"{_BODY} is null", UNDECODABLE, OTHER_MESSAGE),
        Flaw(f"{_AVRO}.rule is not null", text(UNDECODABLE), detail),
    ]


def _body(known: Sequence[WriterSchema]) -> str:
    """Return what is behind the framing; NULL for another schema or message."""
    headers = [header for one in known if not one.problem for header in headers_of(one)]
    cases = " ".join(
        f"when substring(value, 1, {len(one)}) = {binary(one)} then substring(value, {len(one) + 1})"
        for one in headers
    )
    return f"case {cases} else cast(null as binary) end" if cases else "cast(null as binary)"
