"""Fetch requests that name a topic by its identity, where aiokafka's name it by name: version 13, of Kafka 3.1.

What a broker answers is then of that very topic. One that was made anew under the name has another identity, of
which the broker says that it does not know the one that was asked for.
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
"""The tag of it."""
_EPOCH_AND_END = Struct(">iq")


class _Uuid:
    @staticmethod
    def encode(value: bytes) -> bytes:
        return value

    @staticmethod
    def decode(data: BytesIO) -> bytes:
        return data.read(16)


class Diverging(NamedTuple):
    """Where the log of now leaves the one that was read (KIP-595)."""

    epoch: int
    end: int
    """What the leaders up to that epoch wrote ends here."""


class _Tagged(Schema):  # type: ignore[misc]
    """A structure that ends with tagged fields, of which none is needed here."""

    def encode(self, item: Sequence[Any]) -> bytes:
        return bytes(super().encode(item) + TaggedFields.encode({}))

    def decode(self, data: BytesIO) -> tuple[Any, ...]:
        found = super().decode(data)
        TaggedFields.decode(data)
        return tuple(found)


class _Partition(_Tagged):
    """Of an answer. If the log has lost what was read, `Diverging` comes before the records."""

    def decode(self, data: BytesIO) -> tuple[Any, ...]:
        *found, records = Schema.decode(self, data)
        told = TaggedFields.decode(data).get(_DIVERGING)
        return (*found, *([Diverging(*_EPOCH_AND_END.unpack_from(told))] if told else []), records)


def _array(*fields: tuple[str, Any], of: type[_Tagged] = _Tagged) -> Any:
    return CompactArray(of(*fields))


class Answer(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 1, 13
    SCHEMA = _Tagged(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("session_id", Int32),
        (
            "topics",
            _array(
                ("topic_id", _Uuid),
                (
                    "partitions",
                    _array(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("highwater_offset", Int64),
                        ("last_stable_offset", Int64),
                        ("log_start_offset", Int64),
                        ("aborted_transactions", _array(("producer_id", Int64), ("first_offset", Int64))),
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
    SCHEMA = _Tagged(
        ("replica_id", Int32),
        ("max_wait_time", Int32),
        ("min_bytes", Int32),
        ("max_bytes", Int32),
        ("isolation_level", Int8),
        ("session_id", Int32),
        ("session_epoch", Int32),
        (
            "topics",
            _array(
                ("topic_id", _Uuid),
                (
                    "partitions",
                    _array(
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
        ("forgotten_topics_data", _array(("topic_id", _Uuid), ("partitions", CompactArray(Int32)))),
        ("rack_id", CompactString("utf-8")),
    )


class FetchById:
    """Like aiokafka's FetchRequest, of one topic; its client asks for no more of a request than `prepare`."""

    def __init__(
        self,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        topic_id: str,
        partitions: Sequence[tuple[int, int, int, int]],
    ) -> None:
        """`topic_id`: as confluent-kafka writes it.

        `partitions`: each with its offset, the epoch of the leader that wrote what lies below, and the most bytes.
        """
        self._bounds = max_wait_ms, min_bytes, max_bytes, isolation_level
        self._topic_id = base64.b64decode(f"{topic_id}==", validate=True)
        # Of the leader nothing is known, and the reader is no replica.
        self._partitions = [(number, -1, first, epoch, -1, most) for number, first, epoch, most in partitions]

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Question:
        """For a broker that takes these versions. Raises UsageError where it is too old."""
        low, high = versions[Question.API_KEY]
        if not low <= Question.API_VERSION <= high:
            raise UsageError(
                "topics are read by their identities, which brokers take since Kafka 3.1: update these brokers"
            )
        no_session = 0, -1
        return Question(-1, *self._bounds, *no_session, [(self._topic_id, self._partitions)], [], "")
