"""How events stand on their topic: the three formats, and the schemas that wrote them.

avro: single-object encoding, the fingerprint names the writer's schema. confluent: a zero byte and the schema's
number in a registry, 4 bytes, big endian. json: one object, checked field by field (`cutwater.core.jsonevents`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

AVRO, CONFLUENT, JSON = "avro", "confluent", "json"
FORMATS = (AVRO, CONFLUENT, JSON)
CONFLUENT_HEADER_BYTES = 5


@dataclass(frozen=True)
class EventFormat:
    """The format of a job's events."""

    kind: str = AVRO
    older: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    """avro: the schema's earlier versions, whose events are read as the newest's."""
    registry: str = ""
    """confluent: the registry's URL; the environment may name another."""
    subject: str = ""
    """confluent: the subject whose versions write this topic."""


@dataclass(frozen=True)
class WriterSchema:
    """A schema that events on a topic may be written with."""

    header: bytes
    """What the value of such an event begins with."""
    schema: dict[str, Any]
    name: str
    """For people: a fingerprint, or a number in the registry."""


def confluent_header(schema_id: int) -> bytes:
    """The bytes before the body of an event whose schema has this number."""
    return b"\0" + schema_id.to_bytes(CONFLUENT_HEADER_BYTES - 1, "big")
