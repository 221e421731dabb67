"""Which format a record is written in, by its first bytes: SQL over `value`."""

from __future__ import annotations

from collections.abc import Iterator

from cutwater.adapters.avro.codec import HEADER_BYTES, MARKER
from cutwater.core.events.formats import (
    AVRO,
    CONFLUENT,
    CONFLUENT_HEADER_BYTES,
    CONFLUENT_MARKER,
    JSON,
    JSON_SCHEMA,
    OTHER_FORMAT,
)
from cutwater_spark.query.sql import binary

# What a framed value begins with, and the least bytes of its header; anything else was never framed so.
FRAMED = {
    AVRO: f"substring(value, 1, {len(MARKER)}) = {binary(MARKER)} and octet_length(value) >= {HEADER_BYTES}",
    CONFLUENT: f"substring(value, 1, 1) = {binary(CONFLUENT_MARKER)} and octet_length(value) >= "
    f"{CONFLUENT_HEADER_BYTES}",
    JSON: f"substring(value, 1, 1) = {binary(b'{')}",
}


def foreign(kind: str) -> Iterator[tuple[str, str]]:
    """What a record of another format than the job's is: a condition, and the rule that it breaks.

    To be asked of records that are known to be no event.
    """
    body = (
        f"substring(value, {CONFLUENT_HEADER_BYTES + 1}, 1) = {binary(b'{')} and endswith(value, {binary(b'}')})"
    )
    yield f"{FRAMED[CONFLUENT]} and {body}", JSON_SCHEMA
    for other, framed in FRAMED.items():
        if other != kind:
            yield framed, OTHER_FORMAT.format(other, kind)
