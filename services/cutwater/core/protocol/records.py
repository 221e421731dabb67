"""The records of the protocol, as plain values. Their Avro schemas are in schemas/, one file each.

Times are milliseconds since 1970, UTC. Digests are signed 64-bit numbers, as in Spark and Avro.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.protocol.cuts import NOWHERE, Cut
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.log_evidence import Evidence


@dataclass(frozen=True)
class Start:
    """A driver has taken over a generation. Every record of a lower attempt is before this one."""

    job: str
    generation: Generation
    attempt: int
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class WrittenEpoch:
    """The input and output of an epoch, which its barrier and its milestone share."""

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
    """Events read by this epoch, including rejected ones."""
    rejected: int
    """Rejected events: each is a dead letter."""
    late: int
    """Events that arrived after their window, or their pane, had closed: each is on the late list."""
    skew_ms: int
    """The range of the source partitions' newest event times in this epoch."""
    schema_fingerprint: str
    definition: str
    """`Job.fingerprint`."""
    epoch_started_ms: int
    written_ms: int
    tombstones: int = 0
    """Windows below the horizon that were cleared before this epoch's rows; not part of rows and digest."""
    collected: tuple[int, ...] = ()
    """Per partition of the changelog: below this offset nothing is left to clear."""
    partition_rows: tuple[int, ...] = ()
    """Per partition of the changelog: its part of `rows`."""
    partition_digests: tuple[int, ...] = ()
    """Per partition of the changelog: its part of `digest`, so that a view of some partitions proves its rows."""
    origin_cut: Cut = NOWHERE
    """For source partitions copied from another region: the next offset in that region, by the partition here."""
    evidence: Evidence = ()
    """Evidence of the topics of both cuts: topic ids, and leader epochs of the partitions."""
    floor_ms: int = 0
    """Events are late for windows that end at or below it. Those between it and the watermark amend a window."""
    amended: int = 0
    """Rows of windows that had ended at or below the watermark of the epoch before."""
    no_value: int = 0
    """Rejected events without a value: deletions, on a compacted topic."""

    def same_content(self, other: WrittenEpoch) -> bool:
        """Return whether two records of one epoch agree on source cut, rows and digest."""
        return (self.source_cut, self.rows, self.digest) == (other.source_cut, other.rows, other.digest)


@dataclass(frozen=True, kw_only=True)
class Barrier(WrittenEpoch):
    """Epoch N is written: the broker has acknowledged every row, and the rows are proved."""


@dataclass(frozen=True)
class Committed:
    """A hint that Spark's commit log holds epoch N. It is optional, because the next barrier implies it."""

    job: str
    generation: Generation
    attempt: int
    epoch: int
    at_ms: int


@dataclass(frozen=True)
class Heartbeat:
    """The end of the source is reached, with nothing new since epoch N: keeps the age of an idle job correct."""

    job: str
    generation: Generation
    attempt: int
    epoch: int
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class Milestone(WrittenEpoch):
    """Epoch N is durable and complete. Immutable; the unit that views show and mirrors copy."""

    sequence: int
    parent_hash: bytes
    barriers_position: int
    """The offset on the barriers topic from which commit-signal continues after this milestone."""
    committed_ms: int
    rewinds_to: int = 0
    """In the first milestone of a rollback: the sequence whose state it returns to; else 0."""

    @property
    def token(self) -> Token:
        return Token(self.generation, self.sequence)


@dataclass(frozen=True)
class Claim:
    """A generation id is reserved: the candidate starts from its parent milestone."""

    job: str
    generation: Generation
    parent: bytes
    """The bytes of the parent milestone on the commit stream."""
    partitions: int
    rewinds_to: int
    """In a rollback: the sequence whose state it returns to; else 0.

    With an origin: the last sequence of this region in the parent's line; 0 for none.
    """
    reason: str
    at_ms: int
    origin: str = ""
    """In a failover: the region of the parent milestone; empty for this region's commit stream."""
    source_cut: Cut = NOWHERE
    """In a failover: the offsets from which the candidate reads its sources here."""
    changelog_cut: Cut = NOWHERE
    """In a failover: the parent's changelog cut, in offsets of the copy here."""
    origin_cut: Cut = NOWHERE
    """In a failover: how far the source was copied, in offsets of the origin, by the partition here."""
    evidence: Evidence = ()
    """In a failover: evidence of the changelog's copy here, from the arrival."""


@dataclass(frozen=True)
class Reopening:
    """A candidate counts events that its parent's generation has listed as late: their windows are open again."""

    job: str
    generation: Generation
    floor_ms: int
    """Events count for windows that end above it. These are in the parent's state, and in the promoted one's."""
    source_cut: Cut
    """The candidate does not raise the floor before it has read the events below it."""
    at_ms: int


class FileText(NamedTuple):
    """A file of a job, by its path as the job file names it."""

    name: str
    text: str


@dataclass(frozen=True)
class Redefinition:
    """The job file of a generation, so that every process finds it: a candidate's that differs from its parent's,
    or the parent's own."""

    job: str
    generation: Generation
    definition: str
    """`Job.fingerprint` of that job file."""
    files: tuple[FileText, ...]
    """The job file first, then the schemas that it names."""
    complete_from_ms: int
    """Windows that start here or later are complete in everything that is new; 0 if nothing is new."""
    at_ms: int


@dataclass(frozen=True)
class Promotion:
    job: str
    generation: Generation
    at_ms: int


@dataclass(frozen=True)
class Hold:
    """A candidate's promotion waits (`cutwater.core.generations.holds`)."""

    job: str
    generation: Generation
    until_ms: int
    """It ends by itself then; 0: an earlier hold ends now."""
    by: str
    reason: str
    at_ms: int


@dataclass(frozen=True)
class Schedule:
    """When and how fast a candidate may work (`cutwater.core.pacing.schedules`). The newest one counts."""

    job: str
    generation: Generation
    windows: tuple[str, ...]
    """Times of day, such as 02:00-05:00; empty: always."""
    zone: str
    """The time zone of the windows, such as Europe/Berlin."""
    max_events_per_s: int
    """0: no bound."""
    yield_ms: int
    """By so much later may rows of the promoted generation become readable, for the candidate's sake."""
    by: str
    at_ms: int


@dataclass(frozen=True)
class Withdrawal:
    job: str
    generation: Generation
    reason: str
    at_ms: int


@dataclass(frozen=True)
class Canary:
    """A candidate is compared with the promoted generation, milestone by milestone, and its gate decides."""

    job: str
    generation: Generation
    milestones: int
    """So many compared milestones promote it; 0: the gate decides nothing."""
    differences: int
    """More differing rows at one milestone drop it."""
    tolerance: float
    """Relative, for floating-point numbers."""
    keep_ms: int
    """After its promotion, how long the generation before keeps counting, ready for a rollback; 0: not at all."""
    at_ms: int


class DifferingRow(NamedTuple):
    """A row that the candidate has otherwise than the promoted generation."""

    key: str
    start_ms: int
    end_ms: int
    text: str
    """How it differs, for people."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How far a canary has been compared, and what came of it. The newest one counts."""

    job: str
    generation: Generation
    epoch: int
    """The epoch of the candidate that was compared last."""
    number: int
    """That milestone's number among those of the candidate."""
    sequence: int
    """The promoted generation's milestone with the same source cut."""
    compared: int
    """Pairs of milestones compared so far."""
    unpaired: int
    """Milestones of the candidate with whose source cut the promoted generation has none: not compared."""
    passed: int
    """Milestones of the promoted generation with whose source cut the candidate has none."""
    rows: int
    """Changed rows compared so far; those of the first pair are all."""
    differing: int
    """Rows that differ at the last pair."""
    late: int
    """Rows that differ there, of windows that end at or below `late_until_ms`: no differences."""
    late_until_ms: int
    """Windows that end by then were closed when the two listed different numbers of late events; 0: none."""
    first: tuple[DifferingRow, ...]
    """Some of the differing rows."""
    verdict: str
    """`promote` or `drop` once the gate has decided; empty before."""
    reason: str
    at_ms: int


@dataclass(frozen=True)
class Decision:
    """An operator's decision which line of a fork counts. It deletes nothing."""

    job: str
    generation: Generation
    """The generation that continued from another region's milestone. It names the fork."""
    keeps: str
    """The id of the generation that counts: `generation`, or one of the other region."""
    reason: str
    at_ms: int


@dataclass(frozen=True)
class Release:
    """A region stops a job after its newest milestone, so that another region can continue from there."""

    job: str
    generation: Generation
    sequence: int
    to: str
    at_ms: int

    @property
    def token(self) -> Token:
        return Token(self.generation, self.sequence)


Signal = Start | Barrier | Committed | Heartbeat

StreamRecord = Milestone | Heartbeat | Release

AfterClaim = (
    Reopening
    | Redefinition
    | Canary
    | Comparison
    | Promotion
    | Hold
    | Schedule
    | Withdrawal
    | Decision
    | Milestone
)
"""What follows a claim on the candidates topic."""

Candidacy = Claim | AfterClaim
"""The records of the candidates topic; its milestones are those of candidates."""
