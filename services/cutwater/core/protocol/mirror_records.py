"""The records that a mirror writes in its own region, and the names of the topics they stand on.

A mirror runs in the target region, reads another region's cluster (the origin) and writes its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.leader_epochs import Led
from cutwater.core.protocol.log_evidence import Evidence
from cutwater.core.protocol.topics import TopicSpec

SLOTS = 4
"""Never another number: two mirrors that count otherwise would not fence each other."""
SOURCE_OFFSET, SOURCE_TIMESTAMP = "source-offset", "source-timestamp"
"""Headers of copied events and rows: where the record stood in the origin, and when (ms), in decimal digits."""
HEADER_ROOM = 1_024
"""By how much a copied record may be larger than its original."""
_RENEWAL = "renewal:"
"""No topic has a colon in its name."""
SEGMENT_BYTES = 16 * 1024 * 1024
POSITION_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True)
class Mirrored:
    """How far one partition of the origin is copied: written in the transaction that copies it."""

    job: str
    origin: str
    """The region that is copied."""
    topic: str
    """Its name in the origin."""
    partition: int
    topic_id: str
    """The origin's identity of the topic: another one is another topic, whatever its name."""
    partitions: int
    """How many the topic had."""
    first: int
    """The source offset at which copying began. Of a changelog: rows of a snapshot stand for what is below it."""
    before: int
    """The source position before this transaction."""
    next: int
    """The source position after it: everything below was read."""
    leader: int
    """The newest leader there whose log is known to hold all below `next`; UNKNOWN where none is."""
    leaders: tuple[int, ...]
    """Who wrote what this transaction copied, and what was copied just before it: epochs, in log order;"""
    leaders_from: tuple[int, ...]
    """and the source offset at which each began."""
    local: int
    """The offset here that follows what is copied."""
    local_epoch: int
    """The leader here that told so; UNKNOWN where none did."""
    whole_from: int
    whole_to: int
    """Every cut from the one up to the other was passed while compaction had spared what lies below it."""
    ended: int
    """The newest source offset at which the log was seen to end; -1 for none."""
    runs_source: tuple[int, ...]
    """Where each record stands that this transaction copied, as runs without gaps: the first source offset,"""
    runs_local: tuple[int, ...]
    """the first offset here,"""
    runs_length: tuple[int, ...]
    """and the number of records."""
    records: int
    """Copied since `first`, all together."""
    size: int
    """Bytes of their keys and values."""
    source_ms: int
    """The origin's time of the newest one."""
    at_ms: int

    @property
    def led(self) -> tuple[Led, ...]:
        """As pairs; nothing where nothing has come."""
        return tuple(map(Led, self.leaders, self.leaders_from))

    @property
    def key(self) -> bytes:
        """The key of the record: the newest position of each partition stays."""
        return f"{self.origin}/{self.topic}/{self.partition}".encode()


@dataclass(frozen=True)
class Steering:
    """What an operator wants of the mirror of one origin: the newest counts. It stands among the positions."""

    job: str
    origin: str
    paused: bool
    at_ms: int

    @property
    def key(self) -> bytes:
        return f"{self.origin}/steering".encode()


@dataclass(frozen=True)
class Renewal:
    """Somebody begins the copy of a topic anew: no mirror works until he has come to the end of it.

    It stands among the positions, and is taken away at the end.
    """

    job: str
    origin: str
    topic: str
    """Its name in the origin."""
    at_ms: int

    @property
    def key(self) -> bytes:
        return f"{self.origin}/{_RENEWAL}{self.topic}".encode()


@dataclass(frozen=True)
class Arrival:
    """In a replica: milestone M is readable here. Cuts are of the topics here."""

    job: str
    origin: str
    generation: Generation
    sequence: int
    milestone_hash: bytes
    """SHA-256 of the milestone's bytes, which stand on `<job>.milestones.from-<origin>`."""
    stream_offset: int
    """At which offset they stand there."""
    source_cut: Cut
    changelog_cut: Cut
    watermark_ms: int
    committed_ms: int
    """When the origin wrote the milestone."""
    arrived_ms: int
    evidence: Evidence = ()
    """Of the topics of both cuts, here."""

    @property
    def token(self) -> Token:
        return Token(self.generation, self.sequence)


def place_of(key: bytes) -> tuple[str, TopicPartition]:
    """Origin and partition of a position, by its key; partition -1 for what is none."""
    origin, _, rest = key.decode(errors="replace").partition("/")
    topic, _, partition = rest.rpartition("/")
    return origin, TopicPartition(topic, int(partition) if partition.isdecimal() else -1)


def renewed(key: bytes) -> tuple[str, str] | None:
    """Origin and topic of a renewal, by its key; None for that of something else."""
    origin, _, rest = key.decode(errors="replace").partition("/")
    return (origin, rest.removeprefix(_RENEWAL)) if rest.startswith(_RENEWAL) else None


def from_origin(topic: str, origin: str) -> str:
    """What a topic of the origin is called here, unless it is a changelog, whose name has its region in it."""
    return f"{topic}.from-{origin}"


def target(job: str, topic: str, origin: str) -> str:
    """Where a topic of the origin is copied to."""
    return topic if topic.startswith(topics.changelog_prefix(job)) else from_origin(topic, origin)


def milestones_from(job: str, origin: str) -> str:
    return from_origin(topics.milestones(job), origin)


def arrivals(job: str, origin: str) -> str:
    return from_origin(f"{job}.arrivals", origin)


def positions(job: str) -> str:
    return f"{job}.mirror.positions"


def ids(job: str, origin: str) -> str:
    """What every transactional id of the mirror of one origin begins with."""
    return f"{job}.mirror.{origin}."


def slot_id(job: str, origin: str, slot: int) -> str:
    """The transactional id that fences an older owner of a slot."""
    return f"{ids(job, origin)}{slot}"


def arrivals_id(job: str, origin: str) -> str:
    """The transactional id that fences an older writer of arrivals."""
    return f"{ids(job, origin)}arrivals"


def operator_id(job: str, origin: str) -> str:
    """The transactional id of what an operator says."""
    return f"{ids(job, origin)}operator"


def renewal_id(job: str, origin: str) -> str:
    """The transactional id that fences an earlier try to begin a copy anew."""
    return f"{ids(job, origin)}renewal"


def transactional_ids(job: str, origin: str) -> list[str]:
    """All of a mirror: who initialises them has fenced it, whoever runs it."""
    return [*(slot_id(job, origin, slot) for slot in range(SLOTS)), arrivals_id(job, origin)]


def slot_of(topic: str, partition: int) -> int:
    """Which slot copies a partition of the origin."""
    return crc32(f"{topic}/{partition}".encode()) % SLOTS


def owned(job: str, origin: str) -> list[TopicSpec]:
    """The topics of a mirror itself, beside those that it copies."""
    largest = ("max.message.bytes", str(topics.ROW_BYTES_MAX))  # of thousands of partitions
    kept = (("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1"), largest)
    # Small segments: every start reads this topic from its beginning. An hour: whoever writes arrivals may be
    # away so long without missing where a cut lies here.
    newest = (
        ("cleanup.policy", "compact"),
        ("min.compaction.lag.ms", "3600000"),
        ("segment.bytes", str(SEGMENT_BYTES)),
        ("max.message.bytes", str(POSITION_BYTES_MAX)),
    )
    return [
        TopicSpec(milestones_from(job, origin), 1, kept),
        TopicSpec(arrivals(job, origin), 1, kept),
        TopicSpec(positions(job), 1, newest),
    ]
