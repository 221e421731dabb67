"""What a view at a wanted milestone is made of, before anything is read: which milestones can be had, and how.

A milestone can be read from the changelog as long as compaction has spared every value below its cut: nothing
follows the cut, or what follows is younger than the compaction lag (`core.state.backlog.contained`, which is asked
again when the reading passes the cut). One that a snapshot holds can be had from there, however old it is. Of an
older snapshot only what came since is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry, contained
from cutwater.core.state.bulk_load import Slice, divided
from cutwater.core.state.partition_share import Partitions
from cutwater.core.util.timestamps import iso, iso_ms

RECORDS_PER_S = 200_000
"""Of one worker, roughly; the machine and the rows decide."""
_SHOWN_MAX = 5


@dataclass(frozen=True)
class Target:
    """What is wanted: one milestone, or the newest that was committed by a moment, or the newest of all."""

    token: Token | None = None
    at_ms: int | None = None

    @staticmethod
    def of(text: str) -> Target:
        """`latest`, a token, or a moment as ISO 8601 (UTC where it has no offset). Raises UsageError."""
        if text == "latest":
            return Target()
        try:
            return Target(token=Token.parse(text))
        except (UsageError, ValueError):
            pass
        try:
            return Target(at_ms=iso_ms(text))
        except ValueError:
            raise UsageError(
                f"'{text}' is no target: write latest, a token such as g1-local-00000000:42, or a moment such as "
                "2026-01-31T08:00:00Z"
            ) from None


class Kept(NamedTuple):
    """A snapshot: the view at one milestone, as files."""

    milestone: Milestone
    files: int
    bytes: int
    lower_ms: int | None = None
    """Windows that end at or below it were evicted from the view for its size, as far as the snapshot says."""

    def lacks(self, horizon_ms: int) -> bool:
        """Does a view that begins from it lack windows above this horizon?"""
        return self.lower_ms is not None and self.lower_ms > horizon_ms


@dataclass(frozen=True)
class Known:
    """What there is to restore from."""

    stream: Sequence[Entry]
    """The milestones of one generation that are kept, oldest first."""
    starts: Mapping[int, int]
    """First offset that is kept, by partition of the changelog."""
    ends: Mapping[int, int]
    now_ms: int
    partitions: Partitions | None = None
    """Those that are wanted; None for all."""
    snapshots: Sequence[Kept] = ()
    """Of these partitions."""


@dataclass(frozen=True)
class Plan:
    """How to get there."""

    to: Entry
    since: Milestone | None
    """What the folder holds already."""
    snapshot: Kept | None
    """What it begins from, where it holds nothing."""
    slices: tuple[Slice, ...]
    """What is read of the changelog; compaction has left fewer records than offsets."""
    held: bool
    """Can the changelog alone give the milestone, if the snapshot turns out to be damaged?"""
    passed_over: Kept | None = None
    """A newer snapshot, from which windows were evicted that can be had in this way."""

    @property
    def lower_ms(self) -> int | None:
        """Windows that end at or below it will be missing, evicted from the snapshot. None: none will."""
        one = self.snapshot
        return one.lower_ms if one and one.lacks(self.to.milestone.horizon_ms) else None

    @property
    def records_max(self) -> int:
        return sum(one.records_max for one in self.slices)

    def seconds(self, workers: int) -> float:
        """A guess: the largest share of one worker at `RECORDS_PER_S`."""
        shares = (sum(one.records_max for one in part) for part in divided(self.slices, workers))
        return max(shares, default=0) / RECORDS_PER_S


def restorable(known: Known) -> list[Entry]:
    """The milestones that can be had, oldest first."""
    return [entry for at, entry in enumerate(known.stream) if _available(known, at)]


def plan(target: Target, known: Known, since: Milestone | None = None) -> Plan:
    """Raises UsageError where the milestone is not there, cannot be had any more, or lies behind the view."""
    at = _wanted(target, known)
    entry, milestone = known.stream[at], known.stream[at].milestone
    if since is not None and since.sequence > milestone.sequence:
        raise UsageError(
            f"the folder holds a view at {since.token}, beyond {milestone.token}: views do not go back. Name "
            "another --data-dir"
        )
    held = _held(known, at)
    if since is not None and since != milestone and not held:
        raise UsageError(
            f"{milestone.token} is in a snapshot only, and the folder holds a view at {since.token} already: name "
            "another --data-dir"
        )
    older = [one for one in known.snapshots if one.milestone.sequence <= milestone.sequence and _ours(known, one)]
    newest = _newest(older, milestone) if since is None else None
    if newest is not None and held and newest.lacks(milestone.horizon_ms):
        whole = _newest([one for one in older if not one.lacks(milestone.horizon_ms)], milestone)
        slices = _slices(known, milestone, whole.milestone.changelog_cut if whole else Cut())
        if not _lost(known, slices):
            return Plan(entry, since, whole, slices, held, passed_over=newest)
    begun = newest.milestone if newest else since
    slices = _slices(known, milestone, begun.changelog_cut if begun else Cut())
    if lost := _lost(known, slices):
        first = lost[0]
        raise UsageError(
            f"partition {first.partition} of the changelog begins at {known.starts[first.partition]}, and offsets "
            f"from {first.first} are needed: records were deleted. Start a new generation"
        )
    return Plan(entry, since, newest, slices, held)


def _newest(snapshots: Sequence[Kept], milestone: Milestone) -> Kept | None:
    """Of the same milestone one that lacks nothing."""
    ranked = (
        (one.milestone.sequence, not one.lacks(milestone.horizon_ms), at) for at, one in enumerate(snapshots)
    )
    best = max(ranked, default=None)
    return None if best is None else snapshots[best[-1]]


def _lost(known: Known, slices: Sequence[Slice]) -> list[Slice]:
    """Those of which records were deleted."""
    return [one for one in slices if one.first < known.starts.get(one.partition, 0)]


def _slices(known: Known, milestone: Milestone, since: Cut) -> tuple[Slice, ...]:
    before = since.as_dict()
    return tuple(
        Slice(place.partition, before.get(place, 0), end)
        for place, end in milestone.changelog_cut
        if known.partitions is None or place.partition in known.partitions
    )


def _wanted(target: Target, known: Known) -> int:
    """Its place in the stream."""
    if not known.stream:
        raise UsageError("the commit stream holds no milestone of this generation yet")
    found = [at for at, entry in enumerate(known.stream) if _is_meant(target, entry.milestone)]
    if not found:
        wanted = target.token or f"a milestone committed by {iso(target.at_ms or 0)}"
        raise UsageError(f"the commit stream does not hold {wanted}; {_those(known.stream)}")
    if target == Target():  # of the newest ones any will do
        found = [at for at in found if _available(known, at)] or found
    if not _available(known, found[-1]):
        raise UsageError(
            f"{known.stream[found[-1]].milestone.token} cannot be restored: compaction may have taken values "
            f"below its cut, and no snapshot is of it; {_those(restorable(known))}"
        )
    return found[-1]


def _ours(known: Known, one: Kept) -> bool:
    """Is its milestone of this stream, as far as that is kept?"""
    same = next((kept for kept in known.stream if kept.milestone.sequence == one.milestone.sequence), None)
    return (
        one.milestone.sequence < known.stream[0].milestone.sequence
        if same is None
        else same.milestone == one.milestone
    )


def _available(known: Known, at: int) -> bool:
    milestone = known.stream[at].milestone
    return _held(known, at) or any(one.milestone == milestone for one in known.snapshots)


def _is_meant(target: Target, milestone: Milestone) -> bool:
    if target.token is not None:
        return milestone.token == target.token
    return target.at_ms is None or milestone.committed_ms <= target.at_ms


def _held(known: Known, at: int) -> bool:
    milestone = known.stream[at].milestone
    following = any(known.ends.get(place.partition, 0) > end for place, end in milestone.changelog_cut)
    # What follows a cut was written by the next epoch: not before that began, or before the cut's own rows were.
    # (An attempt that was killed may have written some of it sooner: found when the reading passes the cut.)
    later = known.stream[at + 1].milestone.epoch_started_ms if at + 1 < len(known.stream) else milestone.written_ms
    return contained([later if following else None], known.now_ms)


def _those(entries: Sequence[Entry]) -> str:
    """Which ones there are, in a few words: contiguous ones as ranges."""
    if not entries:
        return "none of those that are kept can be had: wait for the next milestone"
    ranges: list[list[Token]] = []
    for entry in entries:
        token = entry.milestone.token
        if ranges and token.sequence == ranges[-1][-1].sequence + 1:
            ranges[-1] = [ranges[-1][0], token]
        else:
            ranges.append([token])
    shown = [f"{one[0]} to {one[-1]}" if len(one) > 1 else str(one[0]) for one in ranges[-_SHOWN_MAX:]]
    more = f"{len(ranges) - _SHOWN_MAX} ranges before, " if len(ranges) > _SHOWN_MAX else ""
    return f"there are {more}{', '.join(shown)}"
