"""Reading a changelog up to a milestone's cut, and never keeping anything above it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.kafka import explain, make_consumer, raise_read_error
from cutwater.core.cuts import Cut
from cutwater.core.errors import ProtocolError, UnavailableError
from cutwater.core.records import Milestone

STALL_S = 20.0
"""How long a read waits for the next record below a cut before it gives up, to be tried again."""

_POLL_S = 0.2
_BATCH = 1_000


class Stopped(Exception):
    """The process is ending; what was being read is left as it is."""


class Ranges:
    """Reads the ranges between two cuts of one changelog topic. `stopping` ends a read that is under way."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        stopping: Callable[[], bool] = lambda: False,
        stall_s: float = STALL_S,
    ) -> None:
        self.topic = topic
        self._consumer: Consumer = make_consumer(cluster)
        self._stopping = stopping
        self._stall_s = stall_s

    def close(self) -> None:
        self._consumer.close()

    def between(self, earlier: Cut, milestone: Milestone, look_above: bool = False) -> Range:
        """The records from `earlier` up to the milestone's cut. One range can be read at a time.

        `look_above`: find out, too, when the first record above the cut was written.
        """
        before = earlier.as_dict()
        todo: dict[int, tuple[int, int]] = {}
        for place, end in milestone.changelog_cut:
            if place.topic != self.topic:
                raise ProtocolError(
                    f"milestone {milestone.token} names {place.topic}, and this view follows {self.topic}"
                )
            first = before.get(place, 0)
            if first < end or look_above:
                todo[place.partition] = (first, end)
        return Range(self._consumer, self.topic, todo, look_above, self._stopping, self._stall_s)


class Range:
    """One read of a range; iterate it once."""

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        todo: dict[int, tuple[int, int]],
        look_above: bool,
        stopping: Callable[[], bool],
        stall_s: float,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._todo = todo
        self._ends = {partition: end for partition, (_, end) in todo.items()}
        self._look_above = look_above
        self._stopping = stopping
        self._stall_s = stall_s
        self.first_above_ms: dict[int, int | None] = {}
        """Per partition that was looked at: the log time of the first record above the cut, None for no record."""

    @property
    def records_max(self) -> int:
        """How many records the range holds at most; fewer where compaction or transactions left gaps."""
        return sum(max(0, end - first) for first, end in self._todo.values())

    def __iter__(self) -> Iterator[Message]:
        """Every record below the cut, in log order within a partition.

        A partition ends by the consumer's position or by end-of-partition, since compaction leaves gaps. Raises
        UnavailableError when the cut is not reached and nothing more comes; Stopped at the process's end.
        """
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[Message]]:
        """The same in the pieces in which they came: for readers of many rows, which count microseconds."""
        if not self._todo:
            return
        starts = [TopicPartition(self._topic, partition, first) for partition, (first, _) in self._todo.items()]
        try:
            self._consumer.assign(starts)
            yield from self._read()
        except KafkaException as error:
            raise explain(error, f"reading {self._topic}") from None
        finally:
            # A pause outlives the assignment: the next range would wait for ever.
            self._consumer.resume(starts)
            # Nothing above the cut stays anywhere: the next range starts from its own offsets.
            self._consumer.unassign()

    def _read(self) -> Iterator[list[Message]]:
        deadline = time.monotonic() + self._stall_s
        while self._ends:
            if self._stopping():
                raise Stopped
            batch = self._below(self._batch())
            if batch:
                yield batch
                # Counted from here: what the caller does with a record is no stall.
                deadline = time.monotonic() + self._stall_s
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"{self._topic}: nothing came for {self._stall_s:g} s below the cut "
                    f"{dict(sorted(self._ends.items()))}; check that the brokers run and can be reached"
                )

    def _batch(self) -> list[Message]:
        # consume() waits until its batch is full or the time is over: so wait for the first record only.
        first = self._consumer.poll(_POLL_S)
        return [] if first is None else [first, *self._consumer.consume(_BATCH, timeout=0)]

    def _below(self, messages: list[Message]) -> list[Message]:
        """The records below their partition's cut. Takes note of partitions that are done."""
        below: list[Message] = []
        for message in messages:
            if message.error() is not None:
                self._event(message)
                continue
            partition, offset = message.partition(), message.offset()
            end = self._ends.get(partition)
            if end is None:
                continue
            if offset < end:
                below.append(message)
            if offset >= end:
                self._finish(partition, message.timestamp()[1])
            elif offset == end - 1 and not self._look_above:
                self._finish(partition, None)
        return below

    def _event(self, message: Message) -> None:
        error, partition = message.error(), message.partition()
        if error.code() != KafkaError._PARTITION_EOF:
            raise_read_error(error, message.topic(), partition)
        elif partition in self._ends and message.offset() >= self._ends[partition]:
            self._finish(partition, None)

    def _finish(self, partition: int, first_above_ms: int | None) -> None:
        del self._ends[partition]
        if self._look_above:
            self.first_above_ms[partition] = first_above_ms
        # A partition that is done would only fill the queue with what may not be shown.
        self._consumer.pause([TopicPartition(self._topic, partition)])
