"""Progress of a partition's copy: the position after each piece, and the cuts that it contains completely.

Theory of operation. A mirror reads a partition of the origin in log order and appends it to a partition that it
alone writes. Each transaction holds records and the new position (`Mirrored`). Besides the next offset it records:

1. The local offset of each record, as runs. A cut of the origin is translated to the exact offset here, never by
interpolation: transaction markers and gaps of compaction make offsets drift apart.

2. The cuts that the copy passed in time. Compaction removes a value only if a later record of its key is older
than the topic's lag. So a copy read up to a cut holds every value below it if nothing followed the cut then, or
the first record above it is still younger than the lag. (Times are those of the origin's log, which never go back;
a margin covers clock differences.) Cuts inside a stretch of older records may lack values and are never announced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cutwater.core.errors import DivergenceError
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.leader_epochs import LeaderStart, join_leaders
from cutwater.core.protocol.log_evidence import UNKNOWN, Evidence, LogEnd, evidence_of_ends
from cutwater.core.protocol.mirror_records import Mirrored
from cutwater.core.state.backlog import MARGIN_MS

NEVER_MS = 1 << 62
"""The lag of a topic that is not compacted."""


class OriginPartition(NamedTuple):
    """A partition of the origin in its current state."""

    topic: str
    partition: int
    topic_id: str
    partitions: int


class RecordMeta(NamedTuple):
    """The attributes of a record on which the position depends."""

    offset: int
    timestamp_ms: int
    size: int


@dataclass(frozen=True)
class Piece:
    """The records read from a partition for one transaction."""

    first: int
    """The source offset from which it was read."""
    following: int
    """The source offset below which everything has been read."""
    end: int
    """The log's end in the same answer; -1 if unknown."""
    records: Sequence[RecordMeta]
    leaders: Sequence[LeaderStart] = ()
    """The leaders that wrote it."""


def initial_position(
    job: str, origin: str, place: OriginPartition, first: int, local: int, now_ms: int
) -> Mirrored:
    """Return the position before anything is copied, at the start of the log."""
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
    """Return the first position after rows of a snapshot were written here in place of the log below it. `local`:
    the offset after these rows. `source_ms`: the time when the origin wrote the snapshot's milestone."""
    return replace(at, records=records, size=size, local=local, source_ms=source_ms if records else at.source_ms)


def advance_position(
    at: Mirrored, piece: Piece, base: int, now_ms: int, lag_ms: int, leader: int = UNKNOWN
) -> Mirrored:
    """Return the position after a piece whose first record goes to offset `base` here.

    `leader`: an epoch whose log is known to hold all below the position; ignored if the piece has leaders of its
    own. `lag_ms`: the origin's min.compaction.lag.ms; NEVER_MS if the topic is not compacted. Raises
    DivergenceError if the piece does not continue at the position: no reader of the copy would notice.
    """
    require_next(at.topic, at.partition, at.next, piece.first)
    read = piece.records
    stale = [one.offset for one in read if now_ms - one.timestamp_ms >= lag_ms - MARGIN_MS]
    whole_from = stale[-1] + 1 if stale else at.whole_from
    ended = piece.following if piece.following == piece.end else at.ended
    # A cut after the last record waits for the next record, or until the log's end is seen.
    passed = piece.following if piece.following == piece.end else (read[-1].offset if read else at.whole_to)
    # Also of the old records: their local offsets are known, and `whole_from` refuses cuts among them.
    runs = _runs((one.offset for one in read), base)
    _require_rising(at, piece, runs)
    led = join_leaders(at.led[-1:], piece.leaders)
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


def is_worth_writing(new: Mirrored, old: Mirrored) -> bool:
    """Return whether a position without records is worth a transaction of its own."""
    return (new.next, new.whole_to, new.ended, new.leader) != (old.next, old.whole_to, old.ended, old.leader)


def copied_so_far(positions: Iterable[Mirrored], target: Callable[[str], str]) -> tuple[Evidence, Cut]:
    """Return the cut that must still exist here, with the evidence that brokers gave for it. `target`: returns the
    local name of an origin's topic."""
    return evidence_of_ends(
        {
            TopicPartition(target(one.topic), one.partition): LogEnd(one.local, one.local_epoch)
            for one in positions
            if one.local_epoch != UNKNOWN
        }
    )


def read_so_far(positions: Iterable[Mirrored]) -> tuple[Evidence, Cut]:
    """Return the copied cut that the origin must still hold, with the evidence for it, if any."""
    return evidence_of_ends(
        {
            TopicPartition(one.topic, one.partition): LogEnd(one.next, one.leaders[-1])
            for one in positions
            if one.leaders
        }
    )


class Run(NamedTuple):
    """Records without gaps, both in the origin and here."""

    source: int
    local: int
    length: int


def _runs(offsets: Iterable[int], local: int) -> list[Run]:
    """Return the runs of rising `offsets` that are written here without gaps, starting at `local`."""
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
    """Return a cut's local offset: that of the first copied record at or above it, otherwise `local`, the end."""
    for one in runs:
        if cut < one.source + one.length:
            return one.local + max(0, cut - one.source)
    return local


def require_next(topic: str, partition: int, stands: int, first: int) -> None:
    """Raise DivergenceError if reading did not continue at the position."""
    if first != stands:
        raise _astray(topic, partition, f"was read from offset {first}, but the position is {stands}")


def _require_rising(at: Mirrored, piece: Piece, runs: Sequence[Run]) -> None:
    """Raise DivergenceError unless offsets rise and are inside the piece."""
    begin = [*(one.source for one in runs), piece.following]
    end = [piece.first, *(one.source + one.length for one in runs)]
    for first, stands in zip(begin, end, strict=True):
        if first < stands:
            raise _astray(at.topic, at.partition, f"continues at offset {first} after {stands - 1}")


def _astray(topic: str, partition: int, how: str) -> DivergenceError:
    return DivergenceError(
        f"{topic}/{partition} {how}: its records would be copied twice or be missing in the copy. Nothing was "
        "written. This is a bug of the mirror: report it and start the mirror again"
    )


def unaccounted(position: Mirrored, end: int) -> int:
    """Return the number of offsets here up to `end` that the position does not account for: aborted records or
    another writer's. The marker of the mirror's own last transaction with records does not count."""
    return end - position.local - (1 if position.records else 0)


def require_alone(topic: str, partition: int, expected: int, end: int) -> None:
    """Raise DivergenceError unless the log here ends after this mirror's own writes."""
    if end != expected:
        raise DivergenceError(
            f"{topic}/{partition} ends at offset {end}, but after the mirror's own records it must end at "
            f"{expected}: another process writes there or deletes records. Nothing was committed. Find it."
        )
