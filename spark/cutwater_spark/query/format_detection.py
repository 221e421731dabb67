"""Detection of a record's format by its first bytes: SQL over `value`."""

from __future__ import annotations

from collections.abc import Iterator

from cutwater.adapters.avro.codec import HEADER_BYTES, MARKER
from cutwater.core.events.formats import (
    AVRO,
    CONFLUENT,
    CONFLUENT_HEADER_BYTES,
    CONFLUENT_JSON,
    CONFLUENT_MARKER,
    JSON,
    JSON_SCHEMA,
    OTHER_FORMAT,
    framing,
)
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
