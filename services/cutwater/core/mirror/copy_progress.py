"""How far a copy of a partition has come: what one more piece of it changes, and which cuts it holds whole.

Theory of operation. A mirror reads a partition of the origin in log order and appends it to one of its own, where
nobody else writes. Each transaction holds records and the new position (`Mirrored`). The position says two things
beyond "read up to here":

Where each record has gone, as runs. A cut of the origin is translated to the exact offset here, never by
interpolation: transaction markers, and gaps of compaction, make offsets drift apart.

Which cuts it passed in time. Compaction removes a value only for the sake of a later record of its key that is
older than the topic's lag. So a copy that has read everything below a cut holds every value below it, if nothing
followed the cut then, or if the first record above it is still younger than the lag. (Times are those of the
origin's log, which never go back; a margin covers clocks that differ.) Cuts inside a stretch of older records may
lack values: they are never announced, and the first cut behind the stretch is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cutwater.core.errors import DivergenceError
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.leader_epochs import Led, joined
from cutwater.core.protocol.log_evidence import UNKNOWN, Evidence, Standing, of_ends
from cutwater.core.protocol.mirror_records import Mirrored
from cutwater.core.state.backlog import MARGIN_MS

NEVER_MS = 1 << 62
"""The lag of a topic that is not compacted."""


class Place(NamedTuple):
    """A partition of the origin as it is now."""

    topic: str
    partition: int
    topic_id: str
    partitions: int


class Read(NamedTuple):
    """One record of a piece, as far as the position depends on it."""

    offset: int
    timestamp_ms: int
    size: int


@dataclass(frozen=True)
class Piece:
    """What was read of a partition for one transaction."""

    first: int
    """From this source offset on it was read."""
    following: int
    """Everything below this source offset has come."""
    end: int
    """Where the log ended when that was answered; -1 where that is not known."""
    records: Sequence[Read]
    leaders: Sequence[Led] = ()
    """Who wrote it."""


def begun(job: str, origin: str, place: Place, first: int, local: int, now_ms: int) -> Mirrored:
    """The position before anything is copied: from the start of the log on."""
    return Mirrored(
        job=job,
        origin=origin,
        topic=place.topic,
        partition=place.partition,
        topic_id=place.topic_id,
        partitions=place.partitions,
        first=first,
        before=first,
        next=first,
        leader=UNKNOWN,
        leaders=(),
        leaders_from=(),
        local=local,
        local_epoch=UNKNOWN,
        whole_from=first,
        whole_to=first - 1,
        ended=-1,
        runs_source=(),
        runs_local=(),
        runs_length=(),
        records=0,
        size=0,
        source_ms=0,
        at_ms=now_ms,
    )


def seeded(at: Mirrored, records: int, size: int, local: int, source_ms: int) -> Mirrored:
    """A position at which nothing is copied, once rows of a snapshot stand here in place of the log below it.

    `local`: the offset that follows them. `source_ms`: when the origin wrote the snapshot's milestone.
    """
    return replace(at, records=records, size=size, local=local, source_ms=source_ms if records else at.source_ms)


def moved(at: Mirrored, piece: Piece, base: int, now_ms: int, lag_ms: int, leader: int = UNKNOWN) -> Mirrored:
    """The position after a piece whose first record goes to offset `base` here.

    `leader`: one whose log is known to hold all below the position. If the piece brings anything, who wrote it is.
    `lag_ms`: the origin's min.compaction.lag.ms; NEVER_MS where the topic is not compacted. Raises DivergenceError
    where the piece does not go on from the position: nobody behind the copy would find out.
    """
    require_next(at.topic, at.partition, at.next, piece.first)
    read = piece.records
    stale = [one.offset for one in read if now_ms - one.timestamp_ms >= lag_ms - MARGIN_MS]
    whole_from = stale[-1] + 1 if stale else at.whole_from
    ended = piece.following if piece.following == piece.end else at.ended
    # A cut behind the last record waits for what follows it, or for the sight of the log's end.
    passed = piece.following if piece.following == piece.end else (read[-1].offset if read else at.whole_to)
    # Of the old ones, too: where they lie here is known, and cuts among them are refused by `whole_from`.
    runs = _runs((one.offset for one in read), base)
    _require_rising(at, piece, runs)
    led = joined(at.led[-1:], piece.leaders)
    return replace(
        at,
        before=at.next,
        next=piece.following,
        leader=led[-1].epoch if piece.leaders else max(at.leader, leader),
        leaders=tuple(one.epoch for one in led),
        leaders_from=tuple(one.first for one in led),
        local=base + len(read) if read else at.local,
        whole_from=whole_from,
        whole_to=max(at.whole_to, passed),
        ended=ended,
        runs_source=tuple(one.source for one in runs),
        runs_local=tuple(one.local for one in runs),
        runs_length=tuple(one.length for one in runs),
        records=at.records + len(read),
        size=at.size + sum(one.size for one in read),
        source_ms=read[-1].timestamp_ms if read else at.source_ms,
        at_ms=now_ms,
    )


def tells_more(new: Mirrored, old: Mirrored) -> bool:
    """Is a position worth a transaction of its own, without records?"""
    return (new.next, new.whole_to, new.ended, new.leader) != (old.next, old.whole_to, old.ended, old.leader)


def copied_so_far(positions: Iterable[Mirrored], target: Callable[[str], str]) -> tuple[Evidence, Cut]:
    """What must still stand here of what was copied, with the evidence of it, as far as brokers told any.

    `target`: what a topic of the origin is called here.
    """
    return of_ends(
        {
            TopicPartition(target(one.topic), one.partition): Standing(one.local, one.local_epoch)
            for one in positions
            if one.local_epoch != UNKNOWN
        }
    )


def read_so_far(positions: Iterable[Mirrored]) -> tuple[Evidence, Cut]:
    """What the origin must still hold of what was copied, with the evidence of it, as far as there is any."""
    return of_ends(
        {
            TopicPartition(one.topic, one.partition): Standing(one.next, one.leaders[-1])
            for one in positions
            if one.leaders
        }
    )


class Run(NamedTuple):
    """Records without a gap between them, in the origin and here."""

    source: int
    local: int
    length: int


def _runs(offsets: Iterable[int], local: int) -> list[Run]:
    """`offsets` rise, and go to offsets without a gap here, from `local` on."""
    found: list[Run] = []
    source, length = -1, 0
    for offset in offsets:
        if offset == source + length:
            length += 1
            continue
        if length:
            found.append(Run(source, local, length))
            local += length
        source, length = offset, 1
    return [*found, Run(source, local, length)] if length else found


def runs_of(position: Mirrored) -> list[Run]:
    return [Run(*one) for one in zip(position.runs_source, position.runs_local, position.runs_length, strict=True)]


def translated(cut: int, runs: Iterable[Run], local: int) -> int:
    """Where a cut of the origin lies here: at the first record copied from it on, or else at `local`, the end."""
    for one in runs:
        if cut < one.source + one.length:
            return one.local + max(0, cut - one.source)
    return local


def require_next(topic: str, partition: int, stands: int, first: int) -> None:
    """Was it read on from where reading stands? Raises DivergenceError."""
    if first != stands:
        raise _astray(topic, partition, f"was read on from offset {first}, and stands at {stands}")


def _require_rising(at: Mirrored, piece: Piece, runs: Sequence[Run]) -> None:
    """Is every record behind the one before, and inside the piece? Raises DivergenceError."""
    begin = [*(one.source for one in runs), piece.following]
    end = [piece.first, *(one.source + one.length for one in runs)]
    for first, stands in zip(begin, end, strict=True):
        if first < stands:
            raise _astray(at.topic, at.partition, f"goes on at offset {first} behind {stands - 1}")


def _astray(topic: str, partition: int, how: str) -> DivergenceError:
    return DivergenceError(
        f"{topic}/{partition} {how}: its records would be copied twice, or be missing in the copy. Nothing was "
        "written. It is the mirror's own fault: start it again, it goes on from its position; and report this"
    )


def unaccounted(position: Mirrored, end: int) -> int:
    """How many offsets of the log here, which ends at `end`, are behind all that the position accounts for.

    They may be what aborted transactions left, or somebody else's records. The marker of the mirror's own last
    transaction with records is not among them.
    """
    return end - position.local - (1 if position.records else 0)


def require_alone(topic: str, partition: int, expected: int, end: int) -> None:
    """Does the log here end where what this mirror has written says? Raises DivergenceError."""
    if end != expected:
        raise DivergenceError(
            f"{topic}/{partition} ends at offset {end}, and after what the mirror has written it must end at "
            f"{expected}: somebody else writes there or deletes records. Nothing was committed. Find out who."
        )
