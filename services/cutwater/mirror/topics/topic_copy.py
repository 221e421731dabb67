"""One topic of the origin under way: where each partition stands, and what has come of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cutwater.adapters.fetch import record_batches
from cutwater.adapters.fetch.fetcher import Fetcher
from cutwater.adapters.fetch.record_batches import Chunk
from cutwater.adapters.kafka.copy_writer import Copied, Headers
from cutwater.core.mirror.compaction_lag import Spared
from cutwater.core.mirror.copy_progress import Piece, Read, require_next
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.leader_epochs import Led, joined
from cutwater.core.protocol.log_evidence import UNKNOWN
from cutwater.core.protocol.mirror_records import SOURCE_OFFSET, SOURCE_TIMESTAMP, Mirrored


@dataclass
class Followed:
    """What is copied from, where to, and how far it has come."""

    name: str
    target: str
    topic_id: str
    partitions: int
    spared: Spared
    plain: bool
    """Copied byte for byte, without headers of ours."""
    positions: dict[int, Mirrored]
    """Of the partitions that are held."""
    bases: dict[int, int]
    """The offset here that the next record gets, by partition."""
    largest: int
    """Bytes of the largest record that the topic here takes; about, since brokers count what is compressed."""
    fetcher: Fetcher
    holding: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Of partitions that have another leader: it holds all below this source offset, and its epoch."""

    def leader(self, partition: int) -> int:
        """Who is known to hold all below the position, beside whoever wrote it."""
        offset, epoch = self.holding.get(partition, (-1, UNKNOWN))
        return epoch if offset == self.positions[partition].next else UNKNOWN

    def begin(self) -> None:
        """Read on from the positions; what came before is forgotten."""
        nexts = {partition: one.next for partition, one in self.positions.items()}
        self.fetcher.assign(
            nexts, {number: one.leaders[-1] for number, one in self.positions.items() if one.leaders}
        )

    def committed(self, partition: int, position: Mirrored, records: int) -> None:
        """A transaction with so many records of a partition stands here."""
        self.positions[partition] = position
        if records:
            self.bases[partition] += records + 1  # and the transaction's marker


@dataclass
class Taken:
    """What has come of one partition, for one transaction."""

    followed: Followed
    partition: int
    first: int
    following: int
    end: int = -1
    leaders: tuple[Led, ...] = ()
    read: list[Read] = field(default_factory=list)
    records: list[Copied] = field(default_factory=list)
    size: int = 0
    """Bytes of keys and values."""

    @property
    def place(self) -> TopicPartition:
        """Where it goes."""
        return TopicPartition(self.followed.target, self.partition)

    @property
    def largest(self) -> int:
        """Bytes of key and value of its largest record."""
        return max((one.size for one in self.read), default=0)

    @property
    def piece(self) -> Piece:
        return Piece(self.first, self.following, self.end, self.read, self.leaders)

    def add(self, chunk: Chunk) -> None:
        """Raises DivergenceError where it is not the next, ProtocolError as `records` does; then adds nothing."""
        require_next(self.followed.name, self.partition, self.following, chunk.first)
        found = record_batches.records(chunk)
        self.following, self.end = chunk.following, chunk.end
        self.leaders = joined(self.leaders, chunk.leaders)
        plain, came = self.followed.plain, 0
        for one in found:  # 100,000 a second: each look-up shows
            key, value, offset, timestamp = one.key, one.value, one.offset, one.timestamp
            headers: Headers = [*one.headers]
            if not plain:
                headers += ((SOURCE_OFFSET, b"%d" % offset), (SOURCE_TIMESTAMP, b"%d" % timestamp))
            size = len(key or b"") + len(value or b"")
            came += size
            self.read.append(Read(offset, timestamp, size))
            self.records.append(Copied(key, value, headers, max(0, timestamp)))
        self.size += came


def gathered(followed: Followed, chunks: Mapping[int, Chunk], into: dict[TopicPartition, Taken]) -> None:
    """Add what a fetcher has handed out to what is gathered, by place here.

    Raises as `Taken.add`: then some of it is added, and the rest is lost unless it is read again.
    """
    for partition, chunk in chunks.items():
        place = TopicPartition(followed.target, partition)
        if place not in into:
            into[place] = Taken(followed, partition, chunk.first, chunk.first)
        into[place].add(chunk)


def forget(followed: Followed, gathered: dict[TopicPartition, Taken]) -> None:
    """Take what is gathered of a topic out again: it is read once more, or nothing of it is copied."""
    for place in [at for at, one in gathered.items() if one.followed is followed]:
        del gathered[place]


def outgrown(pieces: Collection[Taken], looked: dict[str, int]) -> dict[str, Followed]:
    """Topics with a record that is larger than the topic here takes, as far as is known, to be looked at again.

    `looked`: bytes of the largest record that each was looked at for. Such a record may be rightful, since brokers
    count what is compressed: only a still larger one is worth another look.
    """
    largest: dict[str, int] = {}
    for one in pieces:
        largest[one.followed.name] = max(one.largest, largest.get(one.followed.name, 0))
    followed = {one.followed.name: one.followed for one in pieces}
    found = {name: one for name, one in followed.items() if largest[name] > max(one.largest, looked.get(name, 0))}
    looked |= {name: largest[name] for name in found}
    return found
