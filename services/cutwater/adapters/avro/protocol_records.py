"""The protocol's records as bytes: one Avro schema per record type, identified by fingerprint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from cutwater.adapters.avro.codec import HEADER_BYTES, protocol_codec
from cutwater.core.errors import UnknownRecordError
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.output.position import End, Published
from cutwater.core.protocol.chain import link
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.log_evidence import TopicEvidence
from cutwater.core.protocol.mirror_records import Arrival, Mirrored, Renewal, Steering
from cutwater.core.protocol.records import (
    Barrier,
    Canary,
    Claim,
    Committed,
    Comparison,
    Decision,
    DifferingRow,
    FileText,
    Heartbeat,
    Hold,
    Milestone,
    Promotion,
    Redefinition,
    Release,
    Reopening,
    Schedule,
    Start,
    Withdrawal,
)
from cutwater.core.skew.spread_plan import Adoption, Spread, SpreadKey

Record = (
    Start
    | Barrier
    | Committed
    | Heartbeat
    | Milestone
    | Claim
    | Reopening
    | Redefinition
    | Canary
    | Comparison
    | Promotion
    | Hold
    | Schedule
    | Withdrawal
    | Decision
    | Release
    | End
    | Published
    | Alert
    | Mirrored
    | Arrival
    | Steering
    | Renewal
    | Spread
    | Adoption
)

_TYPES: dict[str, type[Record]] = {
    "start": Start,
    "barrier": Barrier,
    "committed": Committed,
    "heartbeat": Heartbeat,
    "milestone": Milestone,
    "end": End,
    "published": Published,
    "alert": Alert,
    "claim": Claim,
    "reopening": Reopening,
    "redefinition": Redefinition,
    "canary": Canary,
    "comparison": Comparison,
    "promotion": Promotion,
    "hold": Hold,
    "schedule": Schedule,
    "withdrawal": Withdrawal,
    "decision": Decision,
    "release": Release,
    "mirrored": Mirrored,
    "arrival": Arrival,
    "steering": Steering,
    "renewal": Renewal,
    "spread": Spread,
    "adoption": Adoption,
}


def encode(record: Record) -> bytes:
    name = type(record).__name__.lower()
    return protocol_codec(name).encode({f.name: _plain(getattr(record, f.name)) for f in fields(record)})


def decode(data: bytes) -> Record:
    """Decode a record; raises UnknownRecordError if no schema of the protocol has this fingerprint."""
    for name, type_ in _TYPES.items():
        codec = protocol_codec(name)
        if data[:HEADER_BYTES] == codec.header:
            return type_(**{key: _rich(key, value) for key, value in codec.decode(data).items()})
    raise UnknownRecordError(
        f"a record with header {data[:HEADER_BYTES].hex()} is of no schema this version of Cutwater knows; "
        "it was written by a newer version or by another program"
    )


def hash_of(milestone: Milestone) -> bytes:
    """Return the hash that the next milestone must name as its parent."""
    return link(encode(milestone))


def _plain(value: Any) -> Any:
    if isinstance(value, Generation):
        return str(value)
    if (
        isinstance(value, tuple)
        and value
        and isinstance(value[0], TopicEvidence | FileText | DifferingRow | SpreadKey)
    ):
        return [one._asdict() for one in value]
    if isinstance(value, Cut):
        return [{"topic": at.topic, "partition": at.partition, "offset": offset} for at, offset in value]
    return value


_LISTED = TopicEvidence | FileText | DifferingRow | SpreadKey
_ITEMS: dict[str, Callable[[Any], Any]] = {
    "evidence": lambda one: TopicEvidence(one["topic"], one["topic_id"], tuple(one["leader_epochs"])),
    "files": lambda one: FileText(**one),
    "first": lambda one: DifferingRow(**one),
    "keys": lambda one: SpreadKey(one["key"], tuple(one["partitions"]), one["since_version"]),
}
"""Fields that are lists of records."""


def _rich(field: str, value: Any) -> Any:
    if field == "generation":
        return Generation.parse(value)
    if field.endswith("_cut") or field == "progress":
        return Cut.of({TopicPartition(one["topic"], one["partition"]): one["offset"] for one in value})
    if isinstance(value, list):
        return tuple(_ITEMS[field](one) if field in _ITEMS else one for one in value)
    if isinstance(value, datetime):
        return millis(value)
    return value


def millis(moment: datetime) -> int:
    """Return a datetime as milliseconds since 1970, exactly."""
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000
