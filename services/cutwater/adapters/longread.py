"""Reading on for days: a consumer whose client is made anew where it has lost its brokers.

A broker that is just back can answer that there are no brokers, itself included. librdkafka then drops those that
it knows, has none left to ask, and is cut off for good without a word (2.10 to 2.16: its issue 5301). And it can
leave a partition with a broker that leads it no more, whose refusals it keeps to itself (its pull request 5593).
Only another client mends either. So after a long silence one is made: an idle topic costs a connection each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.kafka import assign, make_consumer, raise_read_error

SILENT_S = 20.0
_BATCH = 1_000


class LongRead:
    """Reads partitions of one topic, from where `begin` says."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        silent_s: float = SILENT_S,
        clock_s: Callable[[], float] = time.monotonic,
        **client: Any,
    ) -> None:
        """`client`: settings of the consumer, as of `make_consumer`."""
        self._topic = topic
        self._silent_s, self._clock_s = silent_s, clock_s
        self._make = partial(make_consumer, cluster, **client)
        self.consumer: Consumer = self._make()
        """For questions about the topic; another one after a silence."""
        self._next: dict[int, int] = {}
        self._held: set[int] = set()
        self._ended: set[int] = set()
        self._since_s: float | None = None
        """When this silence was noticed first."""

    def begin(self, firsts: Mapping[int, int]) -> None:
        """Read each of these partitions, from an offset on."""
        self._next, self._held, self._ended = dict(firsts), set(), set()
        assign(self.consumer, self._topic, self._next)

    @property
    def at_end(self) -> bool:
        """Was every partition read to its end, as it was at some moment?"""
        return bool(self._next) and self._ended == self._next.keys()

    def next(self, partition: int) -> int:
        """Every record below this offset has come, or was passed over."""
        return self._next[partition]

    def read(self, timeout_s: float) -> Iterator[Message]:
        """What is new, about a thousand records at most; waits up to `timeout_s` for the first.

        Raises as `raise_read_error` does.
        """
        # consume() waits until its batch is full or the time is over: so wait for the first record only.
        first = self.consumer.poll(timeout_s)
        if first is None:
            self._heard_nothing()
            return
        self._since_s = None
        for message in (first, *self.consumer.consume(_BATCH, timeout=0)):
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is None:
                self._next[partition] = offset + 1
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                self._next[partition] = max(self._next[partition], offset)  # behind the markers
                self._ended.add(partition)
            else:
                raise_read_error(error, self._topic, partition)

    def hold(self, partitions: set[int]) -> None:
        """Read no more of these, and of all others."""
        if partitions != self._held:
            self.consumer.resume([TopicPartition(self._topic, at) for at in self._held - partitions])
            self.consumer.pause([TopicPartition(self._topic, at) for at in partitions - self._held])
            self._held = set(partitions)

    def close(self) -> None:
        self.consumer.close()

    def _heard_nothing(self) -> None:
        now_s = self._clock_s()
        if self._since_s is None:
            self._since_s = now_s
        elif now_s - self._since_s > self._silent_s:
            self._since_s = None
            self.consumer.close()
            self.consumer = self._make()
            assign(self.consumer, self._topic, self._next)
            held, self._held = self._held, set()
            self.hold(held)
