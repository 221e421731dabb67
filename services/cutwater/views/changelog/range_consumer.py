"""A consumer that reads on from one range of a topic to the next, without asking for the same records again."""

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
"""Values of one partition kept for the next range; above it the partition waits, and its records come again."""


class Onward:
    """Where a consumer stands in each partition, and the records that came from behind a range's end.

    A new assignment takes a round of requests, and throws away all that the client has fetched ahead: up to many
    milestones' rows, which the broker would have to send again for every one of them.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._consumer: Consumer = make_consumer(cluster, **QUIET)  # idle while no milestone comes
        self._stands: dict[int, int] = {}
        """Where the range before ended, per partition; empty while a range is read, or was broken off."""
        self._held: dict[int, list[Message]] = {}
        self._held_bytes: Counter[int] = Counter()
        self._next: dict[int, int] = {}
        self._eof: dict[int, int] = {}
        self._paused: set[int] = set()

    def close(self) -> None:
        self._consumer.close()

    def start(self, firsts: Mapping[int, int], anew: bool = False) -> dict[int, list[Message]]:
        """Read on from these offsets. Returns the records at hand already, by partition.

        `anew`: what was known of the log's ends is forgotten. The client tells an end once, and records may have
        come behind it since.
        """
        goes_on, self._stands = self._stands == firsts and not anew, {}
        if not goes_on:
            # A pause outlives the assignment: the partition would never come again.
            self._resume(self._paused)
            assign(self._consumer, self._topic, firsts)
            self._held, self._next, self._eof = {}, dict(firsts), {}
        held, self._held = self._held, {}
        self._held_bytes.clear()
        return held

    def end(self, ends: Mapping[int, int]) -> None:
        """A range was read whole, up to these offsets."""
        self._stands = dict(ends)

    def read(self) -> dict[int, list[Message]]:
        """What has come, by partition in log order; waits a moment for the first. Raises as `raise_read_error`."""
        # consume() waits until its batch is full or the time is over: so wait for the first record only.
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
        """Every record below this offset has come, or was passed over."""
        return self._next[partition]

    def passed(self, partition: int, offset: int) -> bool:
        """Has every record below this offset come?"""
        return self._next[partition] >= offset or self.ended(partition, offset)

    def ended(self, partition: int, offset: int) -> bool:
        """Did the log end at or above this offset, with nothing behind it, when all below it had come?"""
        return self._eof.get(partition, -1) >= offset

    def hold(self, partition: int, messages: Sequence[Message]) -> None:
        """Keep records from behind the range's end for the next one, within a bound."""
        self._held.setdefault(partition, []).extend(messages)
        self._held_bytes[partition] += sum(map(len, messages))
        if partition not in self._paused and self._held_bytes[partition] > HELD_BYTES:
            self._consumer.pause([TopicPartition(self._topic, partition)])
            self._paused.add(partition)

    def want(self, partitions: set[int]) -> None:
        """These are waited for: they go on where the last record that came stood."""
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
