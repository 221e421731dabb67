"""A consumer for days: its client is replaced if it has lost its brokers.

A restarted broker may answer that there are no brokers, itself included. librdkafka then drops all brokers and is
silently cut off for good (2.10 to 2.16: its issue 5301). It may also keep a partition at a broker that no longer
leads it, without reporting the refusals (its pull request 5593). Only a new client helps. So if a partition is
silent for long, one is created, which reports the partition's end at once. If it does not, as on a slow line, the
next one gets more time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from cutwater.adapters.kafka.client import assign, make_consumer, raise_read_error
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.connect import replacement

SILENT_S = 15.0
"""Less than the time that programs wait for unreachable brokers, so that they do not report a past outage."""
PATIENCE_MAX = 8
"""Factor of the maximum silence, for a client whose predecessor was replaced in vain."""
_BATCH = 1_000


class LongLivedConsumer:
    """Reads partitions of one topic from the offsets of `begin` on."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        silent_s: float = SILENT_S,
        clock_s: Callable[[], float] = time.monotonic,
        **client: Any,
    ) -> None:
        """`client`: settings of the consumer, as in `make_consumer`."""
        self._topic = topic
        self._silent_s, self._clock_s = silent_s, clock_s
        self._make = partial(make_consumer, cluster, **client)
        self.consumer: Consumer = self._make()
        """For queries about the topic; replaced after a silence."""
        self._next: dict[int, int] = {}
        self._held: set[int] = set()
        self._ended: set[int] = set()
        self._since_s: dict[int, float] = {}
        """Start of a partition's silence."""
        self._patience_s: dict[int, float] = {}
        """Maximum silence of partitions that are silent since a client was replaced."""

    def begin(self, firsts: Mapping[int, int]) -> None:
        """Read each of these partitions from its offset on."""
        self.hold(set())  # a pause outlives an assignment
        self._next, self._ended = dict(firsts), set()
        assign(self.consumer, self._topic, self._next)

    @property
    def at_end(self) -> bool:
        """True if every partition was read to its end, as of some moment."""
        return bool(self._next) and self._ended == self._next.keys()

    def next(self, partition: int) -> int:
        """Return the next offset: every record below it was read or skipped."""
        return self._next[partition]

    def read(self, timeout_s: float) -> Iterator[Message]:
        """Yield new records, about 1,000 at most; wait `timeout_s` for the first. Raises as `raise_read_error`."""
        # consume() waits until its batch is full or the time is over, so only the first record is awaited.
        first = self.consumer.poll(timeout_s)
        for message in () if first is None else (first, *self.consumer.consume(_BATCH, timeout=0)):
            partition, offset, error = message.partition(), message.offset(), message.error()
            self._since_s.pop(partition, None)
            self._patience_s.pop(partition, None)
            if error is None:
                self._next[partition] = offset + 1
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                self._next[partition] = max(self._next[partition], offset)  # after the markers
                self._ended.add(partition)
            else:
                raise_read_error(error, self._topic, partition)
        self._look_for_silence()

    def hold(self, partitions: set[int]) -> None:
        """Pause exactly these partitions, and resume all others."""
        if partitions != self._held:
            self.consumer.resume([TopicPartition(self._topic, at) for at in self._held - partitions])
            self.consumer.pause([TopicPartition(self._topic, at) for at in partitions - self._held])
            self._held = set(partitions)

    def close(self) -> None:
        self.consumer.close()

    def _look_for_silence(self) -> None:
        now_s = self._clock_s()
        self._since_s = {at: self._since_s.get(at, now_s) for at in self._next if at not in self._held}
        silent = {at for at, since_s in self._since_s.items() if now_s - since_s > self._patience_of(at)}
        if silent:
            self._patience_s |= {
                at: min(2 * self._patience_of(at), PATIENCE_MAX * self._silent_s) for at in silent
            }
            self._replace()

    def _patience_of(self, partition: int) -> float:
        return self._patience_s.get(partition, self._silent_s)

    def _replace(self) -> None:
        self._since_s = {}
        lost, self.consumer = self.consumer, replacement(self.consumer, self._make)
        if self.consumer is lost:
            return
        lost.close()
        assign(self.consumer, self._topic, self._next)
        held, self._held = self._held, set()
        self.hold(held)
