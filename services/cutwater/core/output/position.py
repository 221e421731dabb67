"""End markers for readers of the output, and the publisher's own position.

Theory of operation. Each milestone is written in one Kafka transaction: the rows, an end marker in every partition
of the output, and the new position on the publisher's own topic. A milestone too large for one transaction is
split into parts. Each part moves the position's progress; only the last one ends the milestone. A publisher reads
its position at the start and continues after the last committed transaction. At a hand-over of generations the
position names the old one until the last part of the difference is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cutwater.core.errors import DivergenceError, LostRecordsError, UsageError
from cutwater.core.output.handover import Handover
from cutwater.core.protocol.cuts import NOWHERE, Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.log_evidence import Evidence
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry, Jump, Step

NEVER_MS = -(1 << 63)
"""A time before every window."""


@dataclass(frozen=True)
class End:
    """An end marker in one partition of the output: the rows up to it are of these milestones, all if `last`."""

    job: str
    generation: Generation
    first_sequence: int
    """The first of several milestones published as one; otherwise the same as `sequence`."""
    sequence: int
    part: int
    """From 0; above 0 if a milestone was split."""
    last: bool
    rows: int
    """Rows in this partition, over all parts so far."""
    watermark_ms: int
    committed_ms: int
    """The time when the milestone was written to the commit stream."""
    published_ms: int
    rewinds_to: int = 0
    """At a rollback: the sequence to whose state the job went back; otherwise 0."""


@dataclass(frozen=True)
class Published:
    """The publisher's position."""

    job: str
    generation: Generation
    milestone: bytes
    """The bytes of the newest completely published milestone as on the commit stream; empty for none."""
    stream_offset: int
    """Its offset on the commit stream."""
    target: int
    """The sequence of a milestone of which parts are published; 0 for none."""
    parts: int
    """The number of published parts of it."""
    progress: Cut
    """The changelog offsets that these parts reach; at a hand-over, the changelog cut of the compared state."""
    rows: tuple[int, ...]
    """The rows of these parts, by partition of the output."""
    form: str
    """Mode and format of the output, as in `Job.output_form`."""
    closed_ms: int = NEVER_MS
    """Windows that end at or below it were closed at a published milestone. After a rewind they may be open again:
    rows of their next closing are corrections."""
    output_cut: Cut = NOWHERE
    """The ends of output and position before this transaction."""
    evidence: Evidence = ()
    """The evidence of these topics at that time."""

    def same_place(self, other: Published) -> bool:
        """Return whether both have published the same, up to the part."""
        return (self.milestone, self.target, self.parts) == (other.milestone, other.target, other.parts)


def nothing(job: str, generation: Generation, form: str) -> Published:
    """Return the position before the first milestone."""
    return Published(job, generation, b"", 0, 0, 0, Cut(), (), form)


@dataclass(frozen=True)
class Tail:
    """The end of a partition of the output."""

    end: End
    """The last end marker."""
    missing: int
    """Rows that its transaction lacks here; negative: too many; 0 also if retention has deleted some."""


def tail_of(before: End | None, end: End, rows: int) -> Tail:
    """Return the tail. `rows`: the number of rows between the end markers. `before`: None at the log's start."""
    told = end.rows - (before.rows if before and end.part else 0)
    return Tail(end, told - rows)


@dataclass(frozen=True)
class MilestonePart:
    """The part of a milestone that is written in one transaction."""

    rows: Sequence[int]
    """Number of rows by partition."""
    progress: Cut
    last: bool


def after(position: Published, plan: Step | Jump, part: MilestonePart) -> Published:
    """Return the position after a part is written."""
    milestone = plan.to.milestone
    if part.last:
        clean = nothing(position.job, milestone.generation, position.form)
        closed_ms = max(position.closed_ms, milestone.watermark_ms)
        return replace(clean, milestone=plan.to.record, stream_offset=plan.to.offset, closed_ms=closed_ms)
    return replace(
        position,
        target=milestone.sequence,
        parts=position.parts + 1,
        progress=part.progress,
        rows=_added(position.rows, part.rows),
    )


def ends(
    position: Published, whole: Milestone | None, plan: Step | Jump, part: MilestonePart, now_ms: int
) -> list[End]:
    """Return the end markers of a part, one per partition. `whole`: the decoded milestone in `position`."""
    milestone = plan.to.milestone
    return [
        End(
            job=milestone.job,
            generation=milestone.generation,
            first_sequence=(whole.sequence if whole else 0) + 1,
            sequence=milestone.sequence,
            part=position.parts,
            last=part.last,
            rows=rows,
            watermark_ms=milestone.watermark_ms,
            committed_ms=milestone.committed_ms,
            published_ms=now_ms,
            rewinds_to=plan.rewinds_to if isinstance(plan, Handover) else 0,
        )
        for rows in _added(position.rows, part.rows)
    ]


def applied(position: Published, whole: Milestone | None) -> Entry | None:
    """Return the published milestone as the entry after which to continue."""
    return Entry(whole, position.milestone, position.stream_offset) if whole else None


def require_mine(position: Published, mine: Published, output: str, place: str) -> None:
    """Check that a publisher whose own position would be `mine` may continue at `position`, read from `place`.

    Any generation is allowed: the publisher continues with it and follows the commit stream. Raises
    DivergenceError if the position is of another job; UsageError if the topic `output` holds rows of another mode
    or format, which readers could not distinguish from the new ones.
    """
    if position.job != mine.job:
        raise DivergenceError(
            f"the output was written for job {position.job}, but this publisher is of {mine.job}: it must not "
            "write to that topic"
        )
    if position.form != mine.form:
        raise UsageError(
            f"{output} holds '{position.form}' (mode, format, derived values, scales), but the job file "
            f"says '{mine.form}': put the job file back; or, once nothing reads that output any more, delete the "
            f"topics {output} and {place} and create them again, and the output starts from the beginning"
        )


def require_agreement(
    position: Published, whole: Milestone | None, tails: Mapping[int, Tail | None], output: str, place: str
) -> None:
    """Check that each partition of the output ends completely with the last write in the position.

    `tails`: by partition that should hold records, its tail; None if it is empty. Output and position are written
    in one transaction, so a difference means that one of the topics has lost its end. Raises LostRecordsError with
    partition and sequences, since continuing would leave a gap or publish a milestone twice.
    """
    said = (position.target, position.parts - 1) if position.parts else (whole.sequence if whole else 0, _WHOLE)
    for partition, tail in sorted(tails.items()):
        one = f"{output}/{partition}"
        found = (tail.end.sequence, _WHOLE if tail.end.last else tail.end.part) if tail else (0, _WHOLE)
        if found != said:
            lost, behind = (one, place) if found < said else (place, one)
            why = f"{lost} has lost its end, which {behind} still has"
        elif tail and tail.missing:
            why = f"{tail.missing:,} rows before that are missing or too many: {one} has lost a part of its end"
        else:
            continue
        raise LostRecordsError(
            f"{one} ends with {_named(found)}, but the publisher's position on {place} is after {_named(said)}: "
            f"{why}. Once nothing reads that output any more, delete {output} and {place} and create them again, "
            "and the output starts from the beginning"
        )


_WHOLE = 1 << 31
"""Greater than the number of any part of a milestone."""


def _named(reached: tuple[int, int]) -> str:
    sequence, part = reached
    if not sequence:
        return "nothing"
    return f"sequence {sequence}" if part == _WHOLE else f"part {part + 1} of sequence {sequence}"


def _added(before: Sequence[int], more: Sequence[int]) -> tuple[int, ...]:
    return tuple(one + two for one, two in zip(before or [0] * len(more), more, strict=True))
