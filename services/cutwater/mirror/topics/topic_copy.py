"""One topic of the origin while it is copied: its positions, and what was fetched of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cutwater.adapters.fetch import record_batches
from cutwater.adapters.fetch.fetcher import Fetcher
from cutwater.adapters.fetch.record_batches import Chunk
from cutwater.adapters.kafka.writers.copy_writer import CopyRecord, Headers
from cutwater.core.mirror.compaction_lag import CompactionLagLease
from cutwater.core.mirror.copy_progress import Piece, RecordMeta, require_next
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.leader_epochs import LeaderStart, join_leaders
from cutwater.core.protocol.log_evidence import UNKNOWN
from cutwater.core.protocol.mirror_records import SOURCE_OFFSET, SOURCE_TIMESTAMP, Mirrored


@dataclass
class CopiedTopic:
    """A topic that is copied: its source, its target and its positions."""

    name: str
    target: str
    topic_id: str
    partitions: int
    spared: CompactionLagLease
    plain: bool
    """Copied byte for byte, without added headers."""
    positions: dict[int, Mirrored]
    """Of the partitions that are held."""
    bases: dict[int, int]
    """The offset here of the next record, by partition."""
    largest: int
    """Bytes of the largest record that the topic here takes; approximate: brokers count compressed bytes."""
    fetcher: Fetcher
    holding: dict[int, tuple[int, int]] = field(default_factory=dict)
    """For partitions with a new leader: the source offset below which it has everything, and its epoch."""

    def leader(self, partition: int) -> int:
        """Return the epoch of a new leader known to have everything below the position."""
        offset, epoch = self.holding.get(partition, (-1, UNKNOWN))
        return epoch if offset == self.positions[partition].next else UNKNOWN

    def begin(self) -> None:
        """Read again from the positions; what was fetched before is dropped."""
        nexts = {partition: one.next for partition, one in self.positions.items()}
        self.fetcher.assign(
            nexts, {number: one.leaders[-1] for number, one in self.positions.items() if one.leaders}
        )

    def committed(self, partition: int, position: Mirrored, records: int) -> None:
        """Record that a transaction with `records` records of a partition was committed."""
        self.positions[partition] = position
        if records:
            self.bases[partition] += records + 1  # and the transaction's marker


@dataclass
class FetchedRecords:
    """What was fetched of one partition, for one transaction."""

    followed: CopiedTopic
    partition: int
    first: int
    following: int
    end: int = -1
    leaders: tuple[LeaderStart, ...] = ()
    read: list[RecordMeta] = field(default_factory=list)
    records: list[CopyRecord] = field(default_factory=list)
    size: int = 0
    """Bytes of keys and values."""

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.followed.target, self.partition)

    @property
    def largest(self) -> int:
        return max((one.size for one in self.read), default=0)

    @property
    def piece(self) -> Piece:
        return Piece(self.first, self.following, self.end, self.read, self.leaders)

    def add(self, chunk: Chunk) -> None:
        """Add a chunk. Raises DivergenceError if it is not the next, or ProtocolError; then adds nothing."""
        require_next(self.followed.name, self.partition, self.following, chunk.first)
        found = record_batches.records(chunk)
        self.following, self.end = chunk.following, chunk.end
        self.leaders = join_leaders(self.leaders, chunk.leaders)
        plain, came = self.followed.plain, 0
        for one in found:  # 100,000 a second: keep lookups out of the loop
            key, value, offset, timestamp = one.key, one.value, one.offset, one.timestamp
            headers: Headers = [*one.headers]
            if not plain:
                headers += ((SOURCE_OFFSET, b"%d" % offset), (SOURCE_TIMESTAMP, b"%d" % timestamp))
            size = len(key or b"") + len(value or b"")
            came += size
            self.read.append(RecordMeta(offset, timestamp, size))
            self.records.append(CopyRecord(key, value, headers, max(0, timestamp)))
        self.size += came


def add_chunks(
    followed: CopiedTopic, chunks: Mapping[int, Chunk], into: dict[TopicPartition, FetchedRecords]
) -> None:
    """Add what a fetcher has handed out, by partition here. Raises as `Taken.add`: then some of it is added, and
    the rest is lost unless it is read again.
    """
    for partition, chunk in chunks.items():
        place = TopicPartition(followed.target, partition)
        if place not in into:
            into[place] = FetchedRecords(followed, partition, chunk.first, chunk.first)
        into[place].add(chunk)


def forget(followed: CopiedTopic, gathered: dict[TopicPartition, FetchedRecords]) -> None:
    """Drop what is gathered of a topic: it is read again, or not copied at all."""
    for place in [at for at, one in gathered.items() if one.followed is followed]:
        del gathered[place]


def outgrown(pieces: Collection[FetchedRecords], looked: dict[str, int]) -> dict[str, CopiedTopic]:
    """Return the topics to check again, because a record is larger than the topic here takes.

    `looked`: the largest record for which each was checked. Such a record may be allowed, because brokers count
    compressed bytes: only a larger one leads to another check.
    """
    largest: dict[str, int] = {}
    for one in pieces:
        largest[one.followed.name] = max(one.largest, largest.get(one.followed.name, 0))
    followed = {one.followed.name: one.followed for one in pieces}
    found = {name: one for name, one in followed.items() if largest[name] > max(one.largest, looked.get(name, 0))}
    looked |= {name: largest[name] for name in found}
    return found
