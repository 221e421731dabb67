"""The events that a replay counts: from one milestone's source cut to another's, if the source still has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.protocol.cuts import NOWHERE, Cut, TopicPartition, offsets_text
from cutwater.core.protocol.records import Milestone
from cutwater.core.util.timestamps import iso


class SourceRange(NamedTuple):
    """Offsets of one partition: from `first` to below `end`."""

    partition: int
    first: int
    end: int

    @property
    def offsets(self) -> int:
        return self.end - self.first


def source_ranges(topic: str, before: Milestone | None, after: Milestone) -> tuple[SourceRange, ...]:
    """Return what lies between two milestones, for every partition. `before`: None for the start of the source.

    Raises UsageError if they read other topics too, or if `before` has read what `after` has not.
    """
    cuts = (before.source_cut if before else NOWHERE), after.source_cut
    others = sorted({place.topic for cut in cuts for place, _ in cut} - {topic})
    if others:
        raise UsageError(
            f"{after.token} has also read {', '.join(others)}, copies of another region's events: replay the job "
            "in a region where all of its events were produced"
        )
    if before is not None and not after.source_cut.covers(before.source_cut):
        raise UsageError(f"{before.token} has read events that {after.token} has not: exchange --from and --to")
    firsts = cuts[0].as_dict()
    return tuple(SourceRange(place.partition, firsts.get(place, 0), end) for place, end in after.source_cut)


def require_one_line(before: Milestone, after: Milestone, between: Iterable[Milestone]) -> None:
    """Raise UsageError if a rollback has undone `before`. `between`: what follows it on the stream."""
    for one in between:
        if one.sequence > after.sequence:
            return
        if 0 < one.rewinds_to < before.sequence < one.sequence:
            raise UsageError(
                f"{before.token} was undone: {one.token} went back to milestone {one.rewinds_to}. Name a --from "
                f"up to {one.rewinds_to}, or from {one.sequence} on"
            )


def require_source_kept(
    topic: str, ranges: Sequence[SourceRange], lows: Mapping[int, int], end: Milestone, stream: Iterable[Milestone]
) -> None:
    """Raise UsageError if the source no longer has all of the events. `lows`: its first kept offsets by partition.
    `stream`: the commit stream, oldest first."""
    gone = [
        (one.partition, one.first, min(lows[one.partition], one.end))
        for one in ranges
        if one.first < lows.get(one.partition, 0) and one.offsets
    ]
    if not gone:
        return
    partition, first, low = gone[0]
    more = f", and events of {len(gone) - 1} other partitions" if len(gone) > 1 else ""
    earliest = earliest_start(topic, lows, stream, end)
    advice = (
        f"the earliest possible start is --from {earliest.token} ({iso(earliest.committed_ms)})"
        if earliest
        else f"no milestone up to {end.token} starts behind them"
    )
    raise UsageError(
        f"the source's retention has deleted {offsets_text(first, low)} of {topic}/{partition}{more}: {advice}"
    )


def earliest_start(
    topic: str, lows: Mapping[int, int], stream: Iterable[Milestone], end: Milestone
) -> Milestone | None:
    """Return the first milestone up to `end` that has read everything below these offsets; None if none has."""
    wanted = Cut.of({TopicPartition(topic, number): low for number, low in lows.items() if low})
    for one in stream:
        if one.sequence > end.sequence:
            return None
        if one.source_cut.covers(wanted) and end.source_cut.covers(one.source_cut):
            return one
    return None
