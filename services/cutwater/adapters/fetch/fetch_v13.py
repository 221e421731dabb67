"""Fetch requests by topic id: version 13, of Kafka 3.1. aiokafka's own requests use the topic name.

An answer is then of exactly that topic. If the topic was recreated, the broker reports the requested id as
unknown.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from struct import Struct
from typing import Any, NamedTuple

from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import (
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from cutwater.core.errors import UsageError

_DIVERGING = 0
"""The tag of the field `DivergingEpoch`."""
_EPOCH_AND_END = Struct(">iq")


class _Uuid:
    @staticmethod
    def encode(value: bytes) -> bytes:
        return value

    @staticmethod
    def decode(data: BytesIO) -> bytes:
        return data.read(16)


class Diverging(NamedTuple):
    """The point where the present log differs from the one that was read (KIP-595)."""

    epoch: int
    end: int
    """End offset of the records that the leaders up to that epoch wrote."""


class Tagged(Schema):  # type: ignore[misc]
    """A structure with tagged fields at its end, which are ignored."""

    def encode(self, item: Sequence[Any]) -> bytes:
        return bytes(super().encode(item) + TaggedFields.encode({}))

    def decode(self, data: BytesIO) -> tuple[Any, ...]:
        found = super().decode(data)
        TaggedFields.decode(data)
        return tuple(found)


class _Partition(Tagged):
    """A partition of an answer. If the log has lost records that were read, a `Diverging` precedes the records."""

    def decode(self, data: BytesIO) -> tuple[Any, ...]:
        *found, records = Schema.decode(self, data)
        told = TaggedFields.decode(data).get(_DIVERGING)
        return (*found, *([Diverging(*_EPOCH_AND_END.unpack_from(told))] if told else []), records)


def compact_array(*fields: tuple[str, Any], of: type[Tagged] = Tagged) -> Any:
    return CompactArray(of(*fields))


class Answer(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 1, 13
    SCHEMA = Tagged(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("session_id", Int32),
        (
            "topics",
            compact_array(
                ("topic_id", _Uuid),
                (
                    "partitions",
                    compact_array(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("highwater_offset", Int64),
                        ("last_stable_offset", Int64),
                        ("log_start_offset", Int64),
                        ("aborted_transactions", compact_array(("producer_id", Int64), ("first_offset", Int64))),
                        ("preferred_read_replica", Int32),
                        ("message_set", CompactBytes),
                        of=_Partition,
                    ),
                ),
            ),
        ),
    )


class Question(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION = 1, 13
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = Answer
    SCHEMA = Tagged(
        ("replica_id", Int32),
        ("max_wait_time", Int32),
        ("min_bytes", Int32),
        ("max_bytes", Int32),
        ("isolation_level", Int8),
        ("session_id", Int32),
        ("session_epoch", Int32),
        (
            "topics",
            compact_array(
                ("topic_id", _Uuid),
                (
                    "partitions",
                    compact_array(
                        ("partition", Int32),
                        ("current_leader_epoch", Int32),
                        ("fetch_offset", Int64),
                        ("last_fetched_epoch", Int32),
                        ("log_start_offset", Int64),
                        ("max_bytes", Int32),
                    ),
                ),
            ),
        ),
        ("forgotten_topics_data", compact_array(("topic_id", _Uuid), ("partitions", CompactArray(Int32)))),
        ("rack_id", CompactString("utf-8")),
    )


class FetchById:
    """Like aiokafka's FetchRequest, for one topic; aiokafka's client only calls `prepare`."""

    def __init__(
        self,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        topic_id: str,
        partitions: Sequence[tuple[int, int, int, int]],
    ) -> None:
        """`topic_id`: as confluent-kafka formats it.

        `partitions`: each with its offset, the leader epoch of the record before it, and the maximum bytes.
        """
        self._bounds = max_wait_ms, min_bytes, max_bytes, isolation_level
        self._topic_id = base64.b64decode(f"{topic_id}==", validate=True)
        # -1: the leader's epoch is unknown, and the reader is no replica.
        self._partitions = [(number, -1, first, epoch, -1, most) for number, first, epoch, most in partitions]

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Question:
        """Return the request for a broker with these versions. Raises UsageError if it is too old."""
        low, high = versions[Question.API_KEY]
        if not low <= Question.API_VERSION <= high:
            raise UsageError(
                "topics are read by topic id, which brokers support since Kafka 3.1: update these brokers"
            )
        no_session = 0, -1
        return Question(-1, *self._bounds, *no_session, [(self._topic_id, self._partitions)], [], "")
