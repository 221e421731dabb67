"""The records of the protocol, as plain values. Their Avro schemas are in schemas/, one file each.

Times are milliseconds since the epoch, UTC. Digests are signed 64-bit numbers, as Spark and Avro hold them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.core.protocol.cuts import NOWHERE, Cut
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.log_evidence import Evidence


@dataclass(frozen=True)
class Start:
    """A driver has taken over a generation; every record of a lower attempt ends before this one."""

    job: str
    generation: Generation
    attempt: int
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class WrittenEpoch:
    """What an epoch has read and written: its barrier says it, and its milestone says the same."""

    job: str
    generation: Generation
    attempt: int
    epoch: int
    source_cut: Cut
    changelog_cut: Cut
    watermark_ms: int
    horizon_ms: int
    rows: int
    digest: int
    events: int
    """Events read by this epoch, rejected ones included."""
    rejected: int
    """Events that could not be used: each is a dead letter."""
    late: int
    """(event, window) pairs that came after their window had closed: each is on the late list."""
    skew_ms: int
    """The largest less the smallest of the source partitions' newest event times in this epoch."""
    schema_fingerprint: str
    definition: str
    """`Job.fingerprint`: what a row of the state says."""
    epoch_started_ms: int
    written_ms: int
    tombstones: int = 0
    """Windows below the horizon whose record was cleared before this epoch's rows; outside rows and digest."""
    collected: tuple[int, ...] = ()
    """Per partition of the changelog: below this offset there is nothing more to clear."""
    partition_rows: tuple[int, ...] = ()
    """Per partition of the changelog: its part of `rows`."""
    partition_digests: tuple[int, ...] = ()
    """Per partition of the changelog: its part of `digest`, so that a view of some partitions proves its own."""
    origin_cut: Cut = NOWHERE
    """Of the source partitions that are copies of another region's: the next offset there, by the place here."""
    evidence: Evidence = ()
    """Of the topics of both cuts: which ones they are, and the leaders of their partitions."""
    no_value: int = 0
    """Of the rejected events those without a value: deletions, on a compacted topic."""

    def same_content(self, other: WrittenEpoch) -> bool:
        """Do two records of one epoch agree on what was read and written?"""
        return (self.source_cut, self.rows, self.digest) == (other.source_cut, other.rows, other.digest)


@dataclass(frozen=True, kw_only=True)
class Barrier(WrittenEpoch):
    """Epoch N is written: every row is acknowledged by the broker and proved."""


@dataclass(frozen=True)
class Committed:
    """A hint that Spark's commit log holds epoch N. Never needed: the next barrier says so too."""

    job: str
    generation: Generation
    attempt: int
    epoch: int
    at_ms: int


@dataclass(frozen=True)
class Heartbeat:
    """At the end of the source, nothing new since epoch N: keeps an idle job's age honest."""

    job: str
    generation: Generation
    attempt: int
    epoch: int
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class Milestone(WrittenEpoch):
    """Epoch N is durable and whole. Immutable; the unit that views show and mirrors carry."""

    sequence: int
    parent_hash: bytes
    barriers_position: int
    """Where commit-signal goes on reading after this milestone: its input position, in the same record."""
    committed_ms: int
    rewinds_to: int = 0
    """Of the first milestone of a rollback: the sequence whose state it goes back to; 0 for none."""

    @property
    def token(self) -> Token:
        return Token(self.generation, self.sequence)


@dataclass(frozen=True)
class Claim:
    """A generation id is reserved: the candidate starts from its parent milestone."""

    job: str
    generation: Generation
    parent: bytes
    """The parent milestone, as it stands on the commit stream."""
    partitions: int
    """Of the candidate's changelog."""
    rewinds_to: int
    """Of a rollback: the sequence whose state it goes back to, whatever the newest milestone has read.

    With an origin: the last sequence of this region that the parent's line goes on from. 0 for none.
    """
    reason: str
    at_ms: int
    origin: str = ""
    """The region whose milestone the parent is, in a failover; empty for one of this region's commit stream."""
    source_cut: Cut = NOWHERE
    """In a failover: where the candidate begins to read here, in each of its sources."""
    changelog_cut: Cut = NOWHERE
    """In a failover: where the parent's changelog cut lies in the copy here."""
    origin_cut: Cut = NOWHERE
    """In a failover: how far the source was copied then, in offsets of the origin; places by the topic here."""
    evidence: Evidence = ()
    """In a failover: of the changelog's copy here, as it arrived."""


@dataclass(frozen=True)
class Promotion:
    """The candidate is to be promoted as soon as it may be."""

    job: str
    generation: Generation
    at_ms: int


@dataclass(frozen=True)
class Withdrawal:
    """The candidate is given up: it is never promoted."""

    job: str
    generation: Generation
    reason: str
    at_ms: int


@dataclass(frozen=True)
class Decision:
    """Of two lines that contradict each other an operator has said which one counts. It deletes nothing."""

    job: str
    generation: Generation
    """The one that went on from another region's milestone: it names the fork."""
    keeps: str
    """The id of the generation that counts: that one, or one of the other region's."""
    reason: str
    at_ms: int


@dataclass(frozen=True)
class Release:
    """A region gives a job up behind its newest milestone, for another one that goes on from there."""

    job: str
    generation: Generation
    sequence: int
    to: str
    """The region that is to go on."""
    at_ms: int

    @property
    def token(self) -> Token:
        return Token(self.generation, self.sequence)


Signal = Start | Barrier | Committed | Heartbeat
"""What the barriers topic carries."""

StreamRecord = Milestone | Heartbeat | Release
"""What the commit stream carries."""

Candidacy = Claim | Promotion | Withdrawal | Decision | Milestone
"""What the candidates topic carries: milestones are those of candidates."""
