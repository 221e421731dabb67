"""Detection of a record's format by its first bytes: SQL over `value`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cutwater.adapters.avro.codec import HEADER_BYTES, MARKER
from cutwater.core.events.formats import (
    AVRO,
    CONFLUENT,
    CONFLUENT_HEADER_BYTES,
    CONFLUENT_JSON,
    CONFLUENT_MARKER,
    JSON,
    JSON_SCHEMA,
    NO_SUCH_SCHEMA,
    NOT_FRAMED,
    OTHER_FORMAT,
    WriterSchema,
    framing,
)
from cutwater.core.events.rejection import UNDECODABLE, UNKNOWN_SCHEMA
from cutwater_spark.query.rejection_reasons import RULE_CHARS_MAX, Flaw, flaw
from cutwater_spark.query.sql import binary

# The first bytes of a framed value and the minimum length of its header.
_FRAMED = {
    AVRO: f"substring(value, 1, {len(MARKER)}) = {binary(MARKER)} and octet_length(value) >= {HEADER_BYTES}",
    CONFLUENT: f"substring(value, 1, 1) = {binary(CONFLUENT_MARKER)} and octet_length(value) >= "
    f"{CONFLUENT_HEADER_BYTES}",
    JSON: f"substring(value, 1, 1) = {binary(b'{')}",
}


def is_framed(kind: str) -> str:
    """Return whether a value has the first bytes of a format, as SQL."""
    return _FRAMED[framing(kind)]


def other_format_rules(kind: str) -> Iterator[tuple[str, str]]:
    """Yield (condition, broken rule) for other formats than the job's, of records known to be no event."""
    body = (
        f"substring(value, {CONFLUENT_HEADER_BYTES + 1}, 1) = {binary(b'{')} and endswith(value, {binary(b'}')})"
    )
    if kind != CONFLUENT_JSON:
        yield f"{_FRAMED[CONFLUENT]} and {body}", JSON_SCHEMA
    for other, framed in _FRAMED.items():
        if other != framing(kind):
            yield framed, OTHER_FORMAT.format(other, kind)


def has_number_of(known: Sequence[WriterSchema]) -> str:
    """Return whether a value has a registry's number of one of these schemas, as SQL."""
    numbers = ", ".join(binary(one.header[:CONFLUENT_HEADER_BYTES]) for one in known)
    return f"substring(value, 1, {CONFLUENT_HEADER_BYTES}) in ({numbers})" if numbers else "false"


def other_schema_flaws(kind: str, known: Sequence[WriterSchema]) -> Iterator[Flaw]:
    """Yield the flaws of records without the number of a readable schema; `core.events.formats.of_another_schema`
    does the same without Spark."""
    for one in known:
        if one.problem:
            yield flaw(has_number_of([one]), UNDECODABLE, one.problem[:RULE_CHARS_MAX])
    other = f"not ({has_number_of(known)})"
    yield flaw(f"{other} and {is_framed(kind)}", UNKNOWN_SCHEMA, NO_SUCH_SCHEMA)
    for when, rule in other_format_rules(kind):
        yield flaw(f"{other} and {when}", UNDECODABLE, rule)
    yield flaw(other, UNDECODABLE, NOT_FRAMED.format(kind))
