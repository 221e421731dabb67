"""What is asked of a broker, and what its answer says of each partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka.protocol.fetch import FetchRequest
from confluent_kafka import KafkaError

from cutwater.adapters.fetch import record_batches
from cutwater.adapters.fetch.fetch_v13 import Diverging, FetchById
from cutwater.adapters.fetch.partition_cursor import Way
from cutwater.adapters.fetch.record_batches import Chunk
from cutwater.adapters.kafka.client import TIMEOUT_S, raise_read_error
from cutwater.core.errors import ProtocolError, UnavailableError
from cutwater.core.protocol.log_evidence import UNKNOWN

QUEUED_BYTES = 16 << 20
"""Kept ahead of the reader, of all partitions together and as stored; besides, one answer of each broker."""
PARTITION_BYTES = 1 << 20
"""Asked of a partition at a time; a batch that is larger comes all the same."""
_WAIT_MS = 50
"""How long a broker may wait for something to answer with. A new assignment waits for the answer, too."""
_READ_COMMITTED = 1


def lost_tail(place: str, position: int, epoch: int, end: int) -> ProtocolError:
    """What was read below the position is not there any more, or something else is."""
    return ProtocolError(
        f"{place} has lost its end: up to offset {position} was read, of the leader of epoch {epoch}, and of that "
        f"one nothing stands from offset {end} on. Acknowledged records are gone, or others are in their place"
    )


class Requests:
    """Those for one topic; with its identity, if any, for that very one."""

    def __init__(self, topic: str, topic_id: str) -> None:
        self._topic, self._topic_id = topic, topic_id

    def made(self, asked: Mapping[int, int], epochs: Mapping[int, int]) -> FetchRequest | FetchById:
        """For these partitions, each from an offset on, below which the leader of an epoch has written last."""
        most = min(PARTITION_BYTES, QUEUED_BYTES // len(asked))
        bounds = _WAIT_MS, 1, QUEUED_BYTES, _READ_COMMITTED
        if self._topic_id:
            known = [(one, first, epochs.get(one, UNKNOWN), most) for one, first in asked.items()]
            return FetchById(*bounds, self._topic_id, known)
        return FetchRequest(*bounds, [(self._topic, [(one, first, most) for one, first in asked.items()])])

    def told(self, answer: tuple[Any, ...], asked: int, way: Way, now_s: float) -> Chunk | None:
        """What a broker says of one partition; None where somebody else may know, or the same one soon.

        Raises what asking again cannot mend, or has not for long enough.
        """
        partition, code, high, _stable, *more, raw = answer
        if code:
            self._heed(KafkaError(code), partition, way, now_s)
            return None
        # Since version 5 the start of the log stands before the aborted ones, since 11 a replica behind.
        aborted = next((one for one in more if isinstance(one, list)), None)
        if diverging := next((one for one in more if isinstance(one, Diverging)), None):
            raise lost_tail(f"{self._topic}/{partition}", asked, way.epoch, diverging.end)
        return record_batches.chunk(f"{self._topic}/{partition}", raw, asked, aborted, high)

    def unknown(self, partition: int, why: str) -> UnavailableError:
        return UnavailableError(
            f"reading {self._topic}/{partition}: {why}, for {TIMEOUT_S:.0f} s; is it deleted, or its "
            "broker just back?"
        )

    def _heed(self, error: KafkaError, partition: int, way: Way, now_s: float) -> None:
        # Somebody else may know it, or the same one soon; so it is with all that is not raised.
        if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise_read_error(error, self._topic, partition)
        if way.unknown(now_s):
            raise self.unknown(partition, error.str())
