"""How records stand on a topic: the three formats, and the schemas that wrote them.

avro: single-object encoding, the fingerprint names the writer's schema. confluent: a zero byte and the schema's
number in a registry, 4 bytes, big endian. json: one object (events: `cutwater.core.events.json_events`). The first
byte of a record tells which: c3, 00 or {, so that a topic may change its format and keep what stands there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

AVRO, CONFLUENT, JSON = "avro", "confluent", "json"
FORMATS = (AVRO, CONFLUENT, JSON)
SINGLE_OBJECT_MARKER = b"\xc3\x01"
SINGLE_OBJECT_HEADER_BYTES = 10
CONFLUENT_MARKER = b"\0"
CONFLUENT_HEADER_BYTES = 5
JSON_SCHEMA = (
    "is JSON behind a schema registry's framing (JSON Schema), which is not read: have it written as plain JSON "
    "(source.format: json), or in Avro"
)
"""Why a record that is framed so is no event, whatever the job's format."""
OTHER_FORMAT = "is written as '{}', and source.format is '{}'"
NOT_FRAMED = "is not framed as {}"
NO_SUCH_SCHEMA = "is framed by a schema that the job does not know"
DAMAGED = "is damaged, cut short, has bytes behind its end, or no reader's schema fits"


@dataclass(frozen=True)
class EventFormat:
    """The format of a job's events."""

    kind: str = AVRO
    older: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    """avro: the schema's earlier versions, whose events are read as the newest's."""
    subject: str = ""
    """confluent: the subject whose versions write this topic."""


@dataclass(frozen=True)
class RegistryUse:
    """The schema registry of a job, for its events, its changelog and its output."""

    url: str = ""
    """Without user; the environment may name another. Empty where nobody has named one in the job file."""
    auto_register: bool = True
    """May what is written be registered at the start, where it is new?"""


@dataclass(frozen=True)
class WriterSchema:
    """A schema that events on a topic may be written with."""

    header: bytes
    """What the value of such an event begins with."""
    schema: dict[str, Any]
    name: str
    """For people: a fingerprint, or a number in the registry."""
    problem: str = ""
    """Why nobody here can read by it; then `schema` is empty."""


def confluent_header(schema_id: int) -> bytes:
    """The bytes before the body of a record whose schema has this number."""
    return CONFLUENT_MARKER + schema_id.to_bytes(CONFLUENT_HEADER_BYTES - 1, "big")


def is_confluent(value: bytes) -> bool:
    """Is a record framed so? Nothing else that Cutwater writes begins with a zero byte."""
    return value[:1] == CONFLUENT_MARKER and len(value) >= CONFLUENT_HEADER_BYTES


def framed(kind: str, value: bytes) -> bool:
    """Does a record begin as those of a format do?"""
    if kind == AVRO:
        return value.startswith(SINGLE_OBJECT_MARKER) and len(value) >= SINGLE_OBJECT_HEADER_BYTES
    return is_confluent(value) if kind == CONFLUENT else value[:1] == b"{"


def foreign(kind: str, value: bytes) -> str | None:
    """Of a record that is no event of a format: which other one it is written in, as a rule that it breaks."""
    if is_confluent(value) and value[CONFLUENT_HEADER_BYTES:][:1] == b"{" and value.endswith(b"}"):
        return JSON_SCHEMA
    others = (one for one in FORMATS if one != kind and framed(one, value))
    return next((OTHER_FORMAT.format(one, kind) for one in others), None)


def confluent_numbers(values: Iterable[bytes | None]) -> set[int]:
    """The numbers in those records that are framed so."""
    headers = {one[:CONFLUENT_HEADER_BYTES] for one in values if one and one[0] == 0}
    return {confluent_number(one) for one in headers if is_confluent(one)}


def confluent_number(value: bytes) -> int:
    """The number in a record that is framed so."""
    return int.from_bytes(value[1:CONFLUENT_HEADER_BYTES], "big")
