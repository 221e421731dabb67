"""Protobuf events behind a registry's framing: which schema and message a record is of, and what it says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame

from cutwater.core.events.formats import (
    CONFLUENT_HEADER_BYTES,
    CONFLUENT_PROTOBUF,
    NO_SUCH_SCHEMA,
    NOT_FRAMED,
    WriterSchema,
)
from cutwater.core.events.protobuf.fields import OTHER_MESSAGE, protobuf_fields
from cutwater.core.events.protobuf.framing import headers_of
from cutwater.core.events.rejection import NO_VALUE, NO_VALUE_RULE, UNDECODABLE, UNKNOWN_SCHEMA
from cutwater.core.job.job import Job
from cutwater_spark.query.format_detection import is_framed, other_format_rules
from cutwater_spark.query.protobuf import messages
from cutwater_spark.query.protobuf.wire import entries, last_entries
from cutwater_spark.query.rejection_reasons import RULE_CHARS_MAX, Flaw, flaw
from cutwater_spark.query.sql import binary, text

_BODY, _ENTRIES, _LAST = "__message", "__entries", "__last"
_WRITTEN, _VALUES, _FLAW = "__written", "__values", "__unfit"


def with_messages(raw: DataFrame, job: Job, known: Sequence[WriterSchema]) -> DataFrame:
    """Add columns: the body of a record of a known schema, its entries, the values of its fields, and a flaw."""
    fields = protobuf_fields(job.event_schema)
    return (
        raw.selectExpr("*", f"{_body(known)} as {_BODY}")
        .selectExpr("*", f"{entries(_BODY)} as {_ENTRIES}")
        .selectExpr("*", f"{last_entries(_ENTRIES)} as {_LAST}")
        .selectExpr("*", f"{messages.written(_ENTRIES, _LAST, fields)} as {_WRITTEN}")
        .selectExpr("*", f"{messages.values(_WRITTEN, fields)} as {_VALUES}")
        .selectExpr("*", f"{messages.flaw(_ENTRIES, _WRITTEN, _VALUES, fields)} as {_FLAW}")
    )


def event_of(job: Job) -> str:
    """Return the struct of an event's fields, as SQL over these columns."""
    return messages.event(_VALUES, protobuf_fields(job.event_schema))


def message_flaws(known: Sequence[WriterSchema]) -> list[Flaw]:
    """Return the flaws of a record, as SQL over these columns."""
    return list(_flaws(known))


def _flaws(known: Sequence[WriterSchema]) -> Iterator[Flaw]:
    yield flaw("value is null", NO_VALUE, NO_VALUE_RULE)
    for one in known:
        if one.problem:
            yield flaw(_numbered([one]), UNDECODABLE, one.problem[:RULE_CHARS_MAX])
    other = f"not ({_numbered(known)})"
    yield flaw(f"{other} and {is_framed(CONFLUENT_PROTOBUF)}", UNKNOWN_SCHEMA, NO_SUCH_SCHEMA)
    for when, rule in other_format_rules(CONFLUENT_PROTOBUF):
        yield flaw(f"{other} and {when}", UNDECODABLE, rule)
    yield flaw(other, UNDECODABLE, NOT_FRAMED.format(CONFLUENT_PROTOBUF))
    yield flaw(f"{_BODY} is null", UNDECODABLE, OTHER_MESSAGE)
    field = f"nullif(substring({_FLAW}.path, 2), '')"
    yield Flaw(f"{_FLAW} is not null", text(UNDECODABLE), f"named_struct('field', {field}, 'rule', {_FLAW}.rule)")


def _body(known: Sequence[WriterSchema]) -> str:
    """Return what is behind the framing; NULL for another schema or message."""
    headers = [header for one in known if not one.problem for header in headers_of(one)]
    cases = " ".join(
        f"when substring(value, 1, {len(one)}) = {binary(one)} then substring(value, {len(one) + 1})"
        for one in headers
    )
    return f"case {cases} else cast(null as binary) end" if cases else "cast(null as binary)"


def _numbered(known: Sequence[WriterSchema]) -> str:
    """Return whether a record has the number of one of these schemas."""
    numbers = ", ".join(binary(one.header[:CONFLUENT_HEADER_BYTES]) for one in known)
    return f"substring(value, 1, {CONFLUENT_HEADER_BYTES}) in ({numbers})" if numbers else "false"
