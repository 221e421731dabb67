"""What the publisher writes beside the rows: end markers for readers, its own position for itself.

Theory of operation. Everything of one milestone is written in one Kafka transaction: the rows, an end marker in
every partition of the output, and the new position on a topic of the publisher's own. A milestone too large for
one transaction is split into parts. Each part moves the position's progress; only the last one ends the milestone.
A publisher that starts reads its position and goes on where the last committed transaction ended.
At a hand-over of generations the position names the old one until the last part of the difference is written.
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
"""Before every window."""


@dataclass(frozen=True)
class End:
    """In one partition of the output: the rows up to here are those of these milestones, whole when `last`."""

    job: str
    generation: Generation
    first_sequence: int
    """Where several milestones were published as one, the first of them; else the same as `sequence`."""
    sequence: int
    part: int
    """From 0; above 0 where a milestone was split."""
    last: bool
    rows: int
    """Rows in this partition, over all parts so far."""
    watermark_ms: int
    committed_ms: int
    """When the milestone was written to the commit stream."""
    published_ms: int
    rewinds_to: int = 0
    """At a rollback: the sequence whose state the job went back to; else 0."""


@dataclass(frozen=True)
class Published:
    """The publisher's position."""

    job: str
    generation: Generation
    milestone: bytes
    """The newest milestone that is published whole, as it stands on the commit stream; empty for none."""
    stream_offset: int
    """Its offset there."""
    target: int
    """The sequence of a milestone of which parts are published; 0 for none."""
    parts: int
    """How many parts of it."""
    progress: Cut
    """How far on the changelog these parts reach; of a hand-over, the changelog cut of the state compared with."""
    rows: tuple[int, ...]
    """Their rows, per partition of the output."""
    form: str
    """Mode and format of the output, as `Output.form` says them."""
    closed_ms: int = NEVER_MS
    """Windows that end at or below it were closed at a published milestone. After a rewind they may be open again:
    what a closing says of them then is a correction."""
    output_cut: Cut = NOWHERE
    """Where output and position ended before this transaction."""
    evidence: Evidence = ()
    """Of their topics, then."""

    def same_place(self, other: Published) -> bool:
        """Is the same published by both, up to the part?"""
        return (self.milestone, self.target, self.parts) == (other.milestone, other.target, other.parts)


def nothing(job: str, generation: Generation, form: str) -> Published:
    """The position before the first milestone."""
    return Published(job, generation, b"", 0, 0, 0, Cut(), (), form)


@dataclass(frozen=True)
class Tail:
    """How a partition of the output ends."""

    end: End
    """The last end marker."""
    missing: int
    """How many rows its transaction lacks here; below zero for too many, 0 too where retention has taken some."""


def tail_of(before: End | None, end: End, rows: int) -> Tail:
    """`rows`: how many stand between these end markers, of which `before` is None at the log's beginning."""
    told = end.rows - (before.rows if before and end.part else 0)
    return Tail(end, told - rows)


@dataclass(frozen=True)
class Part:
    """A piece of a milestone that goes into one transaction."""

    rows: Sequence[int]
    """How many, per partition."""
    progress: Cut
    last: bool


def after(position: Published, plan: Step | Jump, part: Part) -> Published:
    """The position once a part is written."""
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


def ends(position: Published, whole: Milestone | None, plan: Step | Jump, part: Part, now_ms: int) -> list[End]:
    """The end markers of a part, one per partition. `whole` is the milestone in `position`, decoded."""
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
    """The published milestone as the place to go on from."""
    return Entry(whole, position.milestone, position.stream_offset) if whole else None


def require_mine(position: Published, mine: Published, output: str, place: str) -> None:
    """May a publisher whose own position would be `mine` go on at `position`, read from `place`?

    Of any generation: it goes on with that one, and follows the commit stream. Raises DivergenceError where it is
    of another job; UsageError where the topic `output` holds rows of another mode or format: a reader could no
    longer tell what it has from what it will get.
    """
    if position.job != mine.job:
        raise DivergenceError(
            f"the output was written for job {position.job}, and this publisher is of {mine.job}: it must not go "
            "on in that topic"
        )
    if position.form != mine.form:
        raise UsageError(
            f"{output} holds '{position.form}' (mode and format), and the job file's output says '{mine.form}': "
            "put the job file back; or, once nobody reads that output any more, delete the topics "
            f"{output} and {place}, make them again, and the output begins anew"
        )


def require_agreement(
    position: Published, whole: Milestone | None, tails: Mapping[int, Tail | None], output: str, place: str
) -> None:
    """Does each partition of the output end with what the position says was written last, and whole?

    `tails`: of each partition that holds anything; None where it should and does not. They were written in one
    transaction: so where they differ, one of the topics has lost its end. Raises LostRecordsError, which names
    partition and sequences: going on would leave a gap, or say a milestone twice.
    """
    said = (position.target, position.parts - 1) if position.parts else (whole.sequence if whole else 0, _WHOLE)
    for partition, tail in sorted(tails.items()):
        one = f"{output}/{partition}"
        found = (tail.end.sequence, _WHOLE if tail.end.last else tail.end.part) if tail else (0, _WHOLE)
        if found != said:
            lost, behind = (one, place) if found < said else (place, one)
            why = f"{lost} has lost its end, which {behind} still has"
        elif tail and tail.missing:
            why = (
                f"{tail.missing:,} rows in front of that are missing or too many: {one} has lost a part of its end"
            )
        else:
            continue
        raise LostRecordsError(
            f"{one} ends with {_named(found)}, and the publisher's position on {place} is behind {_named(said)}: "
            f"{why}. Once nobody reads that output any more, delete {output} and {place}, make them again, and "
            "the output begins anew"
        )


_WHOLE = 1 << 31
"""Behind every part of a milestone."""


def _named(reached: tuple[int, int]) -> str:
    sequence, part = reached
    if not sequence:
        return "nothing"
    return f"sequence {sequence}" if part == _WHOLE else f"part {part + 1} of sequence {sequence}"


def _added(before: Sequence[int], more: Sequence[int]) -> tuple[int, ...]:
    return tuple(one + two for one, two in zip(before or [0] * len(more), more, strict=True))
