"""A consumer that continues from one range of a topic to the next without fetching records twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import methodcaller

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from cutwater.adapters.kafka.client import assign, make_consumer, raise_read_error
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.kafka_client_log import QUIET

_POLL_S = 0.2
_BATCH = 4_000

HELD_BYTES = 4 << 20
"""Values of one partition kept for the next range; above it the partition is paused."""


class RangeConsumer:
    """Consumer with its position in each partition, and the records read beyond a range's end. A new assignment
    would take a round of requests and discard all records that the client has prefetched, up to many
    milestones' rows, which the broker would send again for each milestone."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._consumer: Consumer = make_consumer(cluster, **QUIET)  # idle between milestones
        self._stands: dict[int, int] = {}
        """The end of the previous range by partition; empty while a range is read or after an interruption."""
        self._held: dict[int, list[Message]] = {}
        self._held_bytes: Counter[int] = Counter()
        self._next: dict[int, int] = {}
        self._eof: dict[int, int] = {}
        self._paused: set[int] = set()

    def close(self) -> None:
        self._consumer.close()

    def start(self, firsts: Mapping[int, int], anew: bool = False) -> dict[int, list[Message]]:
        """Continue at these offsets. Return the records already held, by partition. `anew`: forget the known
        ends of the log. The client reports an end once, and records may have been written since."""
        goes_on, self._stands = self._stands == firsts and not anew, {}
        if not goes_on:
            # A pause outlives the assignment: the partition would never be read again.
            self._resume(self._paused)
            assign(self._consumer, self._topic, firsts)
            self._held, self._next, self._eof = {}, dict(firsts), {}
        held, self._held = self._held, {}
        self._held_bytes.clear()
        return held

    def end(self, ends: Mapping[int, int]) -> None:
        """Record that a range was read completely, up to these offsets."""
        self._stands = dict(ends)

    def read(self) -> dict[int, list[Message]]:
        """Return new records by partition, in log order; wait 0.2 s for the first. Raises as
        `raise_read_error`."""
        # consume() waits until its batch is full or the timeout is over, so wait for the first record only.
        first = self._consumer.poll(_POLL_S)
        came = [] if first is None else [first, *self._consumer.consume(_BATCH, timeout=0)]
        events = [event for event in came if event.error() is not None]
        if events:
            came = [message for message in came if message.error() is None]
            for event in events:
                self._event(event)
        found: dict[int, list[Message]] = defaultdict(list)
        for partition, run in groupby(came, methodcaller("partition")):
            found[partition].extend(run)
        for partition, messages in found.items():
            self._next[partition] = messages[-1].offset() + 1
        return found

    def next(self, partition: int) -> int:
        """Return the offset below which every record has been read or skipped."""
        return self._next[partition]

    def has_read_to(self, partition: int, offset: int) -> bool:
        """Return whether every record below this offset has been read."""
        return self._next[partition] >= offset or self.has_ended(partition, offset)

    def has_ended(self, partition: int, offset: int) -> bool:
        """Return whether the log ended at or above this offset once all records below it had been read."""
        return self._eof.get(partition, -1) >= offset

    def keep_for_next(self, partition: int, messages: Sequence[Message]) -> None:
        """Keep records beyond the range's end for the next one, up to `HELD_BYTES` by partition."""
        self._held.setdefault(partition, []).extend(messages)
        self._held_bytes[partition] += sum(map(len, messages))
        if partition not in self._paused and self._held_bytes[partition] > HELD_BYTES:
            self._consumer.pause([TopicPartition(self._topic, partition)])
            self._paused.add(partition)

    def resume(self, partitions: set[int]) -> None:
        """Resume these partitions after their last record."""
        self._resume(self._paused & partitions)

    def _resume(self, partitions: set[int]) -> None:
        if partitions:
            self._consumer.resume([TopicPartition(self._topic, at) for at in partitions])
            self._paused = self._paused - partitions

    def _event(self, message: Message) -> None:
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            self._eof[message.partition()] = message.offset()
        else:
            raise_read_error(error, message.topic(), message.partition())
