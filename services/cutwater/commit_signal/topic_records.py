"""Decoding of the records that commit-signal reads."""

from __future__ import annotations

from cutwater.adapters.avro import protocol_records
from cutwater.core.errors import ProtocolError
from cutwater.core.protocol.records import (
    Barrier,
    Committed,
    Heartbeat,
    Milestone,
    Release,
    Signal,
    Start,
    StreamRecord,
)


def signal_of(value: bytes) -> Signal:
    """Decode a record of the barriers topic. Raises ProtocolError for another type."""
    record = protocol_records.decode(value)
    if not isinstance(record, Start | Barrier | Committed | Heartbeat):
        raise ProtocolError(f"the barriers topic contains a {type(record).__name__}; only drivers write there")
    return record


def stream_record_of(value: bytes) -> StreamRecord:
    """Decode a record of the commit stream. Raises ProtocolError for another type."""
    record = protocol_records.decode(value)
    if not isinstance(record, Milestone | Heartbeat | Release):
        raise ProtocolError(
            f"the commit stream contains a {type(record).__name__}; only commit-signal writes there"
        )
    return record
