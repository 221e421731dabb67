"""Reader of a changelog up to a milestone's cut. It never returns a record above the cut."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator

from confluent_kafka import KafkaException, Message

from cutwater.adapters.kafka.client import explain
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.errors import ProtocolError, UnavailableError
from cutwater.core.protocol.cuts import NOWHERE, Cut, TopicPartition
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.partition_share import Partitions
from cutwater.views.changelog.missing_records import name_missing_records
from cutwater.views.changelog.range_consumer import RangeConsumer

STALL_S = 20.0
"""The time a read waits for the next record below a cut before it fails and is retried."""


class Stopped(Exception):
    """The process is ending; an interrupted read leaves its state as it is."""


class Ranges:
    """Reader of the ranges between two cuts of one changelog topic. `stopping` ends a running read."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        stopping: Callable[[], bool] = lambda: False,
        stall_s: float = STALL_S,
        partitions: Partitions | None = None,
    ) -> None:
        """`partitions`: those to read; None for all."""
        self.topic = topic
        self.partitions = partitions
        self._cluster = cluster
        self._log = RangeConsumer(cluster, topic)
        self._witness: LogCheck | None = None
        self._stopping = stopping
        self._stall_s = stall_s

    def close(self) -> None:
        self._log.close()

    def between(self, earlier: Cut, milestone: Milestone, look_above: bool = False) -> Range:
        """Return the records from `earlier` up to the milestone's cut. Only one range can be read at a time.
        `look_above`: also find out when the first record above the cut was written."""
        bounds = self.bounds(earlier, milestone)
        return Range(self._cluster, self._log, self.topic, bounds, look_above, self._stopping, self._stall_s)

    def require_kept(self, milestone: Milestone) -> None:
        """Raise LostRecordsError if the log has lost records below the milestone's cut. To be called after the
        read, before its records are used as the milestone's state."""
        self._check.require(milestone.evidence, self._cut(milestone), f"milestone {milestone.token}")

    def find_losses(self, milestone: Milestone) -> list[str]:
        """Return descriptions of what the log has lost below the milestone's cut. Raises as `LogCheck` does."""
        return self._check.find_losses(milestone.evidence, self._cut(milestone))

    @property
    def _check(self) -> LogCheck:
        self._witness = self._witness or LogCheck(self._cluster)
        return self._witness

    def _cut(self, milestone: Milestone) -> Cut:
        """Return the milestone's cut in the partitions that are read."""
        places = [TopicPartition(self.topic, number) for number in self.bounds(NOWHERE, milestone)]
        return Cut.of({place: milestone.changelog_cut.offset(place) for place in places})

    def bounds(self, earlier: Cut, milestone: Milestone) -> dict[int, tuple[int, int]]:
        """Return first offset and end of the range in each partition."""
        before = earlier.as_dict()
        bounds: dict[int, tuple[int, int]] = {}
        for place, end in milestone.changelog_cut:
            if place.topic != self.topic:
                raise ProtocolError(
                    f"milestone {milestone.token} is for {place.topic}, but this view follows {self.topic}"
                )
            if self.partitions is None or place.partition in self.partitions:
                bounds[place.partition] = (before.get(place, 0), end)
        return bounds


class Range:
    """One read of a range; iterate it once."""

    def __init__(
        self,
        cluster: Cluster,
        log: RangeConsumer,
        topic: str,
        bounds: dict[int, tuple[int, int]],
        look_above: bool,
        stopping: Callable[[], bool],
        stall_s: float,
    ) -> None:
        self._cluster = cluster
        self._log = log
        self._topic = topic
        self._firsts = {partition: first for partition, (first, _) in bounds.items()}
        self._ends = {partition: end for partition, (_, end) in bounds.items()}
        self._todo = {at for at, (first, end) in bounds.items() if first < end or look_above}
        self._look_above = look_above
        self._stopping = stopping
        self._stall_s = stall_s
        self.first_above_ms: dict[int, int | None] = {}
        """By checked partition: the log time of the first record above the cut; None for no record."""

    @property
    def records_max(self) -> int:
        """The most records in the range; compaction and transactions leave gaps."""
        return sum(max(0, end - self._firsts[at]) for at, end in self._ends.items())

    def __iter__(self) -> Iterator[Message]:
        """Yield every record below the cut, in log order within a partition. Raises as `pieces` does."""
        for _, messages in self.pieces():
            yield from messages

    def pieces(self) -> Iterator[tuple[int, list[Message]]]:
        """Yield the records in lists of one partition, which is faster for many rows.

        A partition ends by offset or by end-of-partition, since compaction leaves gaps. Raises UnavailableError if
        no record arrives for `stall_s` below the cut; DivergenceError with the missing offsets if the log lacks
        some; Stopped if the process ends.
        """
        if not self._todo:
            return
        try:
            at_hand = self._log.start(self._firsts, anew=self._look_above)
            with name_missing_records(self._cluster, self._topic, self._needed):
                yield from self._read(at_hand)
            self._log.end(self._ends)
        except KafkaException as error:
            raise explain(error, f"reading {self._topic}") from None

    def _needed(self) -> dict[int, tuple[int, int]]:
        return {at: (self._log.next(at), end) for at, end in self._ends.items()}

    def _read(self, came: dict[int, list[Message]]) -> Iterator[tuple[int, list[Message]]]:
        deadline = time.monotonic() + self._stall_s
        while True:
            for partition, messages in came.items():
                below = self._below(partition, messages)
                if below:
                    yield partition, below
                    # The time that the caller takes for a record is no stall.
                    deadline = time.monotonic() + self._stall_s
            self._todo = {at for at in self._todo if not self._is_done(at)}
            if not self._todo:
                return
            if self._stopping():
                raise Stopped
            if time.monotonic() > deadline:
                waiting = {at: self._ends[at] for at in sorted(self._todo)}
                raise UnavailableError(
                    f"{self._topic}: no record arrived for {self._stall_s:g} s below the cut {waiting}; check "
                    "that the brokers run and can be reached"
                )
            self._log.resume(self._todo)
            came = self._log.read()

    def _below(self, partition: int, messages: list[Message]) -> list[Message]:
        end = self._ends[partition]
        if messages[-1].offset() < end:
            return messages
        count = bisect_left(messages, end, key=lambda message: message.offset())
        if self._look_above and partition in self._todo:
            self.first_above_ms.setdefault(partition, messages[count].timestamp()[1])
        self._log.keep_for_next(partition, messages[count:])
        return messages[:count]

    def _is_done(self, partition: int) -> bool:
        if not self._look_above:
            return self._log.has_read_to(partition, self._ends[partition])
        if self._log.has_ended(partition, self._ends[partition]):
            self.first_above_ms.setdefault(partition, None)
        return partition in self.first_above_ms
