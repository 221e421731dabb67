"""Fetch requests to a broker, and the evaluation of its answers by partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka.protocol.fetch import FetchRequest
from confluent_kafka import KafkaError

from cutwater.adapters.fetch import record_batches
from cutwater.adapters.fetch.fetch_v13 import Diverging, FetchById
from cutwater.adapters.fetch.partition_cursor import PartitionCursor
from cutwater.adapters.fetch.record_batches import Chunk
from cutwater.adapters.kafka.client import TIMEOUT_S, raise_read_error
from cutwater.core.errors import ProtocolError, UnavailableError
from cutwater.core.protocol.log_evidence import UNKNOWN

QUEUED_BYTES = 16 << 20
"""Prefetched bytes of all partitions together, as stored; in addition one answer of each broker."""
PARTITION_BYTES = 1 << 20
"""Requested bytes of a partition at a time; a larger batch is returned nevertheless."""
_WAIT_MS = 50
"""Maximum wait of a broker for new records. A new assignment waits for this answer, too."""
_READ_COMMITTED = 1


def lost_tail(place: str, position: int, epoch: int, end: int) -> ProtocolError:
    """Return the error for records below the position that are missing or replaced."""
    return ProtocolError(
        f"{place} has lost its end: it was read up to offset {position}, written by the leader of epoch {epoch}, "
        f"whose records now end at offset {end}. Acknowledged records are gone or replaced by others"
    )


class Requests:
    """Requests for one topic, by topic id if it is given."""

    def __init__(self, topic: str, topic_id: str) -> None:
        self._topic, self._topic_id = topic, topic_id

    def build(self, asked: Mapping[int, int], epochs: Mapping[int, int]) -> FetchRequest | FetchById:
        """Return a request for partitions from their offsets on. `epochs`: the leader epochs before them."""
        most = min(PARTITION_BYTES, QUEUED_BYTES // len(asked))
        bounds = _WAIT_MS, 1, QUEUED_BYTES, _READ_COMMITTED
        if self._topic_id:
            known = [(one, first, epochs.get(one, UNKNOWN), most) for one, first in asked.items()]
            return FetchById(*bounds, self._topic_id, known)
        return FetchRequest(*bounds, [(self._topic, [(one, first, most) for one, first in asked.items()])])

    def parse_answer(
        self, answer: tuple[Any, ...], asked: int, way: PartitionCursor, now_s: float
    ) -> Chunk | None:
        """Return a broker's answer for one partition; None if a retry, perhaps at another broker, may succeed.

        Raises errors that a retry cannot fix or has not fixed in time.
        """
        partition, code, high, _stable, *more, raw = answer
        if code:
            self._handle_error(KafkaError(code), partition, way, now_s)
            return None
        # Since version 5 the log's start precedes the aborted ones, since version 11 a replica follows them.
        aborted = next((one for one in more if isinstance(one, list)), None)
        if diverging := next((one for one in more if isinstance(one, Diverging)), None):
            raise lost_tail(f"{self._topic}/{partition}", asked, way.epoch, diverging.end)
        return record_batches.chunk(f"{self._topic}/{partition}", raw, asked, aborted, high)

    def unknown(self, partition: int, why: str) -> UnavailableError:
        return UnavailableError(
            f"reading {self._topic}/{partition}: {why}, for {TIMEOUT_S:.0f} s; is the topic deleted, or has its "
            "broker just restarted?"
        )

    def _handle_error(self, error: KafkaError, partition: int, way: PartitionCursor, now_s: float) -> None:
        # Errors that are not raised are temporary: another broker may know the partition, or this one soon.
        if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise_read_error(error, self._topic, partition)
        if way.mark_unknown(now_s):
            raise self.unknown(partition, error.str())
