"""A Kafka log in memory: partitions, transactions whose markers arrive one by one, compaction with a lag.

What Kafka promises and no more: a decided transaction is finished some time, the last stable offset hides what
follows an open transaction. Markers and compaction leave gaps in the offsets. An acknowledged record stays while
one of its replicas keeps its disk; `lose_tail` is what happens else: another leader, whose log ends earlier.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from cutwater.core.protocol.leader_epochs import LeaderStart

Headers = list[tuple[str, bytes]]
Place = tuple[str, int]


class Outcome(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Owner(Protocol):
    """Who has opened a transaction."""

    alive: bool


class Transaction:
    """Open until the coordinator has decided; then its markers go out, one partition after the other."""

    __slots__ = ("outcome", "owner", "places")

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.outcome = Outcome.OPEN
        self.places: set[Place] = set()
        """Partitions that still lack the marker."""


class Record:
    """One record, or a transaction's marker where `value` and `key` are None and `marker` is set."""

    __slots__ = ("headers", "key", "marker", "offset", "serial", "time_ms", "transaction", "value")

    def __init__(
        self,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        time_ms: int,
        transaction: Transaction | None,
        marker: bool = False,
    ) -> None:
        self.offset = offset
        self.key = key
        self.value = value
        self.headers = headers
        self.time_ms = time_ms
        self.transaction = transaction
        self.marker = marker
        self.serial = 0
        """Which of all appended records it is, over all partitions."""


class Partition:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.first, self.end = 0, 0
        """The first offset that is kept, and the next one."""
        self.first_open: dict[Transaction, int] = {}
        self.leaders: list[tuple[int, int]] = [(0, 0)]
        """Each leader's epoch, and the offset that its log began at."""
        self.passed_ms: dict[int, int] = {}
        """When compaction first passed a tombstone, by its offset."""

    @property
    def leader_epoch(self) -> int:
        return self.leaders[-1][0]

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The newest leader up to this one that wrote what stands here, and where that ends; (-1, -1) for none."""
        if epoch > self.leader_epoch:
            return -1, -1
        ends = [first for _, first in self.leaders[1:]] + [self.end]
        known = [(one, end) for (one, _), end in zip(self.leaders, ends, strict=True) if one <= epoch]
        return known[-1] if known else (epoch, self.leaders[0][1])

    def led(self, first: int, end: int) -> tuple[LeaderStart, ...]:
        """Who wrote what stands, or stood, between two offsets."""
        ends = [begun for _, begun in self.leaders[1:]] + [self.end]
        spans = zip(self.leaders, ends, strict=True)
        return tuple(
            LeaderStart(epoch, max(first, at)) for (epoch, at), to in spans if max(first, at) < min(end, to)
        )

    @property
    def stable_end(self) -> int:
        """The last stable offset: nothing at or above it is seen by `read_committed`."""
        return max(self.first, min(self.first_open.values(), default=self.end))

    def add(self, record: Record) -> None:
        self.records.append(record)
        self.end = record.offset + 1
        transaction = record.transaction
        if transaction is not None and not record.marker:
            self.first_open.setdefault(transaction, record.offset)

    def next(self, position: int, committed: bool) -> Record | None:
        """The first record to deliver at or above a position."""
        records, end = self.records, self.stable_end if committed else self.end
        for at in range(bisect_left(records, position, key=_offset), len(records)):
            record = records[at]
            if record.offset >= end:
                return None
            if record.marker:
                continue
            if committed and record.transaction and record.transaction.outcome is Outcome.ABORTED:
                continue
            return record
        return None


def _offset(record: Record) -> int:
    return record.offset


def _abandoned(one: Transaction | None) -> bool:
    return one is not None and one.outcome is Outcome.OPEN and not one.owner.alive


def _aborted(record: Record) -> bool:
    return record.transaction is not None and record.transaction.outcome is Outcome.ABORTED


@dataclass
class Producer:
    """What the coordinator knows of a transactional id."""

    epoch: int = 0
    transaction: Transaction | None = None


@dataclass
class Log:
    """All topics of a cluster. `now_ms` is the brokers' clock."""

    now_ms: int
    topics: dict[str, list[Partition]] = field(default_factory=dict)
    producers: dict[str, Producer] = field(default_factory=dict)
    markers: list[tuple[Transaction, Place]] = field(default_factory=list)
    """Decided and still to be written."""
    version: int = 0
    """Grows with every change that a reader can notice."""
    name: str = "simulated"
    """The cluster's identity."""
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of topics, where they were made with any."""
    identities: dict[str, str] = field(default_factory=dict)
    """A topic that is made anew has another one."""
    made: int = 0
    lagging: str = ""
    """Ends of the topics that begin with it may be told as they were a moment ago; by default of one changelog."""
    tells_leaders: bool = True
    """Do brokers say which leader tells an end? Those before Kafka 2.4, and some services, do not."""

    def create(self, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        self.topics[topic] = [Partition() for _ in range(partitions)]
        self.settings[topic] = dict(settings or {})
        self.identities[topic] = f"{self.name}-{self.made}"
        self.made += 1

    def places(self) -> list[Place]:
        """Every partition of every topic."""
        return [(topic, number) for topic, found in self.topics.items() for number in range(len(found))]

    def delete(self, topic: str) -> None:
        """With all that is there; transactions that wrote to it are finished elsewhere only."""
        places = {(topic, number) for number in range(len(self.topics.pop(topic)))}
        self.markers = [one for one in self.markers if one[1] not in places]
        for producer in self.producers.values():
            if producer.transaction is not None:
                producer.transaction.places -= places
                self._finish(producer.transaction)
        del self.settings[topic], self.identities[topic]
        self.version += 1

    def truncate(self, place: Place, before: int) -> None:
        """Delete records, as a retention does, or somebody who asks for it."""
        partition = self.topics[place[0]][place[1]]
        partition.first = max(partition.first, min(before, partition.end))
        partition.records = [one for one in partition.records if one.offset >= partition.first]
        self.version += 1

    def lose_tail(self, place: Place, end: int) -> int:
        """The leader is gone for good, and the next one's log ends earlier. Returns how many records are lost.

        What it lacks of a transaction that is decided is not written again: without its marker it stays open.
        """
        partition = self.topics[place[0]][place[1]]
        lost = [one for one in partition.records if one.offset >= end]
        partition.records = [one for one in partition.records if one.offset < end]
        partition.passed_ms = {at: ms for at, ms in partition.passed_ms.items() if at < end}
        partition.end = max(partition.first, min(partition.end, end))
        following = partition.leader_epoch + 1
        partition.leaders = [one for one in partition.leaders if one[1] <= partition.end] + [
            (following, partition.end)
        ]
        ended = {one.transaction for one in partition.records if one.marker}
        partition.first_open = {}
        for one in partition.records:
            if one.transaction is not None and not one.marker and one.transaction not in ended:
                partition.first_open.setdefault(one.transaction, one.offset)
        self.version += 1
        return len(lost)

    def append(
        self,
        place: Place,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None = None,
        transaction: Transaction | None = None,
    ) -> int:
        partition = self.topics[place[0]][place[1]]
        offset = partition.end
        record = Record(offset, key, value, headers, self.now_ms, transaction)
        partition.add(record)
        if transaction is not None:
            transaction.places.add(place)
        self.version += 1
        record.serial = self.version
        return offset

    def decide(self, producer: Producer, outcome: Outcome) -> None:
        """The coordinator's decision: from here it is final, whoever dies."""
        transaction = producer.transaction
        if transaction is None:
            return
        transaction.outcome = outcome
        self.markers += [(transaction, place) for place in sorted(transaction.places)]
        if not transaction.places:
            producer.transaction = None

    def time_out(self) -> int:
        """Abort what has been open for too long, of whoever has died; how many transactions that were."""
        found = [one for one in self.producers.values() if _abandoned(one.transaction)]
        for producer in found:
            producer.epoch += 1
            self.decide(producer, Outcome.ABORTED)
        return len(found)

    def write_marker(self, which: int) -> None:
        """One marker arrives in its partition."""
        transaction, place = self.markers.pop(which % len(self.markers))
        partition = self.topics[place[0]][place[1]]
        partition.add(Record(partition.end, None, None, None, self.now_ms, transaction, marker=True))
        partition.first_open.pop(transaction, None)
        transaction.places.discard(place)
        self._finish(transaction)
        self.version += 1

    def _finish(self, transaction: Transaction) -> None:
        """It is over once its end is decided and written wherever it wrote."""
        if transaction.places or transaction.outcome is Outcome.OPEN:
            return
        for producer in self.producers.values():
            if producer.transaction is transaction:
                producer.transaction = None

    def compact(self, place: Place, lag_ms: int, delete_retention_ms: int) -> int:
        """Remove values that a newer record of their key follows, if that one is older than the lag.

        And tombstones, a retention after the cleaning that first passed them: it took what they follow, so whoever
        has read that has as long to read them. Returns how many records went.
        """
        partition = self.topics[place[0]][place[1]]
        newest: dict[bytes, int] = {}
        limit = partition.end  # nothing is touched from here on
        for record in partition.records:
            if record.offset >= partition.stable_end or self.now_ms - record.time_ms < lag_ms:
                limit = record.offset
                break
            if record.key is not None and not _aborted(record):
                newest[record.key] = record.offset
            if record.value is None:
                partition.passed_ms.setdefault(record.offset, self.now_ms)
        passed_ms, forgotten_ms = partition.passed_ms, self.now_ms - delete_retention_ms
        kept = [
            one
            for one in partition.records
            if one.key is None
            or one.offset >= limit
            or (one.offset >= newest.get(one.key, 0) and passed_ms.get(one.offset, self.now_ms) >= forgotten_ms)
        ]
        gone = len(partition.records) - len(kept)
        partition.records = kept
        self.version += bool(gone)
        return gone
