"""The formats of records on a topic, and the schemas that wrote them.

avro: single-object encoding, where the fingerprint names the writer's schema. confluent: a zero byte and the
schema id of a registry, 4 bytes, big endian, before Avro. json: one object (events:
`cutwater.core.events.json_events`). The first byte of a record (c3, 00 or {) shows the format, so a topic may
change its format and keep older records. confluent-json: such an object behind a registry's framing; events only.
confluent-protobuf: a message behind that framing and its index in the schema; events only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cutwater.core.events.rejection import UNDECODABLE, UNKNOWN_SCHEMA, Flaw

AVRO, CONFLUENT, JSON = "avro", "confluent", "json"
CONFLUENT_JSON, CONFLUENT_PROTOBUF = "confluent-json", "confluent-protobuf"
FORMATS = (AVRO, CONFLUENT, JSON)
"""Those that the first bytes of a record tell."""
REGISTRY_FORMATS = frozenset({CONFLUENT, CONFLUENT_JSON, CONFLUENT_PROTOBUF})
JSON_FORMATS = frozenset({JSON, CONFLUENT_JSON})
SINGLE_OBJECT_MARKER = b"\xc3\x01"
SINGLE_OBJECT_HEADER_BYTES = 10
CONFLUENT_MARKER = b"\0"
CONFLUENT_HEADER_BYTES = 5
JSON_SCHEMA = "is JSON behind a schema registry's framing, which source.format confluent-json reads"
"""The rule that records with this framing break, in every other format."""
OTHER_FORMAT = "is written as '{}', and source.format is '{}'"
NOT_FRAMED = "is not framed as {}"
NO_SUCH_SCHEMA = "is framed by a schema that the job does not know"
DAMAGED = "is damaged, truncated, has bytes behind its end, or no reader's schema fits"


@dataclass(frozen=True)
class EventFormat:
    kind: str = AVRO
    older: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    """avro: the earlier versions of the schema."""
    subject: str = ""
    """In a registry's framing: the subject whose versions are on this topic."""


@dataclass(frozen=True)
class RegistryUse:
    url: str = ""
    """The URL of the job file, without user; empty if it has none. The environment may override it."""
    auto_register: bool = True
    """Whether new schemas of written records are registered at the start."""


@dataclass(frozen=True)
class WriterSchema:
    """A schema that events on a topic may be written with."""

    header: bytes
    """The first bytes of the value of such an event. Of Protobuf with the index of the message."""
    schema: dict[str, Any]
    """Empty for JSON and Protobuf, whose events are checked against the job's schema."""
    name: str
    """For display: a fingerprint, or a schema id of the registry."""
    problem: str = ""
    """Why the schema cannot be used for reading; then `schema` is empty."""


def framing(kind: str) -> str:
    """Return which of FORMATS has the first bytes of a format."""
    return CONFLUENT if kind in REGISTRY_FORMATS else kind


def confluent_header(schema_id: int) -> bytes:
    return CONFLUENT_MARKER + schema_id.to_bytes(CONFLUENT_HEADER_BYTES - 1, "big")


def is_confluent(value: bytes) -> bool:
    """Return whether a record has Confluent framing. No other record of Cutwater starts with a zero byte."""
    return value[:1] == CONFLUENT_MARKER and len(value) >= CONFLUENT_HEADER_BYTES


def framed(kind: str, value: bytes) -> bool:
    if kind == AVRO:
        return value.startswith(SINGLE_OBJECT_MARKER) and len(value) >= SINGLE_OBJECT_HEADER_BYTES
    return is_confluent(value) if kind in REGISTRY_FORMATS else value[:1] == b"{"


def foreign(kind: str, value: bytes) -> str | None:
    """Return the rule that a record breaks if it is written in another format; else None."""
    if kind != CONFLUENT_JSON and is_framed_json(value):
        return JSON_SCHEMA
    others = (one for one in FORMATS if one != framing(kind) and framed(one, value))
    return next((OTHER_FORMAT.format(one, kind) for one in others), None)


def is_framed_json(value: bytes) -> bool:
    """Return whether a record looks like JSON behind a registry's framing."""
    return is_confluent(value) and value[CONFLUENT_HEADER_BYTES:][:1] == b"{" and value.endswith(b"}")


def of_another_schema(kind: str, value: bytes) -> Flaw:
    """Return the flaw of a record that has the number of no known schema. `kind`: JSON or Protobuf in a registry's
    framing."""
    if is_confluent(value):
        return Flaw(UNKNOWN_SCHEMA, NO_SUCH_SCHEMA)
    return Flaw(UNDECODABLE, foreign(kind, value) or NOT_FRAMED.format(kind))


def confluent_numbers(values: Iterable[bytes | None]) -> set[int]:
    headers = {one[:CONFLUENT_HEADER_BYTES] for one in values if one and one[0] == 0}
    return {confluent_number(one) for one in headers if is_confluent(one)}


def confluent_number(value: bytes) -> int:
    return int.from_bytes(value[1:CONFLUENT_HEADER_BYTES], "big")
