"""The records that a mirror writes in its own region, and the names of their topics.

A mirror runs in the target region, reads another region's cluster (the origin) and writes to its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from cutwater.core.errors import UsageError
from cutwater.core.job.row_room import ROW_BYTES_MAX
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.leader_epochs import LeaderStart
from cutwater.core.protocol.log_evidence import Evidence
from cutwater.core.protocol.topics import TOPIC_CHARS_MAX, TopicSpec

SLOTS = 4
"""This must never change: mirrors with different numbers of slots would not fence each other."""
SOURCE_OFFSET, SOURCE_TIMESTAMP = "source-offset", "source-timestamp"
"""Headers of copied events and rows: the record's offset and timestamp (ms) in the origin, in decimal digits."""
HEADER_ROOM = 1_024
"""The most bytes by which a copied record may exceed its original."""
_RENEWAL = "renewal:"
"""No topic has a colon in its name."""
SEGMENT_BYTES = 16 * 1024 * 1024
POSITION_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True)
class Mirrored:
    """The copy position of one partition of the origin, written in the transaction that copies its records."""

    job: str
    origin: str
    topic: str
    partition: int
    topic_id: str
    """The topic id in the origin. It differs if the topic was recreated."""
    partitions: int
    first: int
    """The source offset at which copying started. For a changelog, rows of a snapshot replace those below it."""
    before: int
    """The source position before this transaction."""
    next: int
    """The source position after it: everything below was read."""
    leader: int
    """The newest leader epoch in the origin whose log is known to hold all below `next`; UNKNOWN if none is."""
    leaders: tuple[int, ...]
    """The leader epochs of the records copied in this transaction and just before it, in log order."""
    leaders_from: tuple[int, ...]
    """The source offset at which each of `leaders` starts."""
    local: int
    """The offset here that follows the copied records."""
    local_epoch: int
    """The leader epoch here that reported `local`; UNKNOWN if none did."""
    whole_from: int
    whole_to: int
    """Every cut from `whole_from` to `whole_to` was passed before compaction could remove a record below it."""
    ended: int
    """The newest observed end offset of the source log; -1 for none."""
    runs_source: tuple[int, ...]
    """The records of this transaction as runs without gaps: the first source offset of each run."""
    runs_local: tuple[int, ...]
    runs_length: tuple[int, ...]
    records: int
    """The number of records copied since `first`."""
    size: int
    source_ms: int
    at_ms: int

    @property
    def led(self) -> tuple[LeaderStart, ...]:
        return tuple(map(LeaderStart, self.leaders, self.leaders_from))

    @property
    def key(self) -> bytes:
        """The record key, so that compaction keeps the newest position of each partition."""
        return f"{self.origin}/{self.topic}/{self.partition}".encode()


@dataclass(frozen=True)
class Steering:
    """An operator's setting for the mirror of one origin. The newest counts; it is on the positions topic."""

    job: str
    origin: str
    paused: bool
    at_ms: int

    @property
    def key(self) -> bytes:
        return f"{self.origin}/steering".encode()


@dataclass(frozen=True)
class Renewal:
    """A resync of a topic is in progress, and no mirror copies until it ends.

    It is on the positions topic, and is deleted at the end.
    """

    job: str
    origin: str
    topic: str
    at_ms: int

    @property
    def key(self) -> bytes:
        return f"{self.origin}/{_RENEWAL}{self.topic}".encode()


@dataclass(frozen=True)
class Arrival:
    """A milestone of the origin is complete in this region. Cuts have this region's offsets."""

    job: str
    origin: str
    generation: Generation
    sequence: int
    milestone_hash: bytes
    """SHA-256 of the milestone's bytes on `<job>.milestones.from-<origin>`."""
    stream_offset: int
    """The milestone's offset on that topic."""
    source_cut: Cut
    changelog_cut: Cut
    watermark_ms: int
    committed_ms: int
    arrived_ms: int
    evidence: Evidence = ()
    """Evidence of the topics of both cuts, in this region."""

    @property
    def token(self) -> Token:
        return Token(self.generation, self.sequence)


def parse_position_key(key: bytes) -> tuple[str, TopicPartition]:
    """Return the origin and partition of a position by its key; partition -1 for other keys."""
    origin, _, rest = key.decode(errors="replace").partition("/")
    topic, _, partition = rest.rpartition("/")
    return origin, TopicPartition(topic, int(partition) if partition.isdecimal() else -1)


def parse_renewal_key(key: bytes) -> tuple[str, str] | None:
    """Return the origin and topic of a renewal by its key; None for other keys."""
    origin, _, rest = key.decode(errors="replace").partition("/")
    return (origin, rest.removeprefix(_RENEWAL)) if rest.startswith(_RENEWAL) else None


def from_origin(topic: str, origin: str) -> str:
    """Return the name here of a topic of the origin. Changelogs keep their name, which contains their region."""
    return f"{topic}.from-{origin}"


def require_copy_name(topic: str, origin: str) -> None:
    """Raise UsageError if a source topic's copy would have a longer name than Kafka takes."""
    copy = from_origin(topic, origin)
    if len(copy) > TOPIC_CHARS_MAX:
        raise UsageError(
            f"the source topic {topic} cannot be mirrored: the name of its copy, {copy}, has {len(copy)} "
            f"characters, and Kafka takes {TOPIC_CHARS_MAX}. Use a source topic whose name has at most "
            f"{TOPIC_CHARS_MAX - len(copy) + len(topic)}"
        )


def target(job: str, topic: str, origin: str) -> str:
    return topic if topic.startswith(topics.changelog_prefix(job)) else from_origin(topic, origin)


def milestones_from(job: str, origin: str) -> str:
    return from_origin(topics.milestones(job), origin)


def arrivals(job: str, origin: str) -> str:
    return from_origin(f"{job}.arrivals", origin)


def positions(job: str) -> str:
    return f"{job}.mirror.positions"


def ids(job: str, origin: str) -> str:
    """Return the prefix of all transactional ids of the mirror of one origin."""
    return f"{job}.mirror.{origin}."


def slot_id(job: str, origin: str, slot: int) -> str:
    """Return the transactional id that fences an older owner of a slot."""
    return f"{ids(job, origin)}{slot}"


def arrivals_id(job: str, origin: str) -> str:
    return f"{ids(job, origin)}arrivals"


def operator_id(job: str, origin: str) -> str:
    return f"{ids(job, origin)}operator"


def renewal_id(job: str, origin: str) -> str:
    return f"{ids(job, origin)}renewal"


def transactional_ids(job: str, origin: str) -> list[str]:
    """Return all transactional ids of a mirror. Initialising them fences the running mirror."""
    return [*(slot_id(job, origin, slot) for slot in range(SLOTS)), arrivals_id(job, origin)]


def slot_of(topic: str, partition: int) -> int:
    return crc32(f"{topic}/{partition}".encode()) % SLOTS


def mirror_topics(job: str, origin: str) -> list[TopicSpec]:
    """Return the topics of a mirror except its copies."""
    largest = ("max.message.bytes", str(ROW_BYTES_MAX))  # for cuts of thousands of partitions
    kept = (("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1"), largest)
    # Small segments, because every start reads the whole topic. The lag of one hour lets the writer of arrivals be
    # away that long without missing the translation of a cut.
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
