"""Plan of a point-in-time restore: the milestones that can be restored, and from what.

A milestone can be read from the changelog if compaction has kept every value below its cut: nothing follows the
cut, or what follows is younger than the compaction lag (`core.state.backlog.contained`, checked again at the cut).
A snapshot can be restored at any age; after an older one the changelog since then is read.
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
"""A rough figure for one worker; it depends on the machine and the rows."""
_SHOWN_MAX = 5


@dataclass(frozen=True)
class Target:
    """The requested milestone: by token, the newest committed by a moment, or the newest of all."""

    token: Token | None = None
    at_ms: int | None = None

    @staticmethod
    def of(text: str) -> Target:
        """Parse `latest`, a token, or an ISO 8601 time (UTC if it has no offset). Raises UsageError."""
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
                f"'{text}' is no target: write latest, a token such as g1-local-00000000:42, or a time such as "
                "2026-01-31T08:00:00Z"
            ) from None


class RestorableSnapshot(NamedTuple):
    """A snapshot: the view at one milestone, as files."""

    milestone: Milestone
    files: int
    bytes: int
    lower_ms: int | None = None
    """Windows that end at or below it were evicted from the view (`max_bytes`); None: unknown or none."""

    def lacks(self, horizon_ms: int) -> bool:
        """Return whether a view restored from it lacks windows above this horizon."""
        return self.lower_ms is not None and self.lower_ms > horizon_ms


@dataclass(frozen=True)
class RestoreSources:
    """The sources of a restore."""

    stream: Sequence[Entry]
    """The retained milestones of one generation, oldest first."""
    starts: Mapping[int, int]
    """First retained offset by partition of the changelog."""
    ends: Mapping[int, int]
    now_ms: int
    partitions: Partitions | None = None
    """The partitions to restore; None for all."""
    snapshots: Sequence[RestorableSnapshot] = ()
    """Snapshots of these partitions."""


@dataclass(frozen=True)
class RestorePlan:
    """The way to a milestone."""

    to: Entry
    since: Milestone | None
    """The milestone that the folder holds already."""
    snapshot: RestorableSnapshot | None
    """The snapshot to start from, if the folder holds nothing."""
    slices: tuple[Slice, ...]
    """The offsets to read of the changelog; compaction has left fewer records than offsets."""
    held: bool
    """Whether the changelog alone is enough, if the snapshot turns out to be damaged."""
    passed_over: RestorableSnapshot | None = None
    """A newer snapshot that lacks evicted windows which this plan restores."""

    @property
    def lower_ms(self) -> int | None:
        """Windows that end at or below it will be missing, as evicted from the snapshot; None: none will."""
        one = self.snapshot
        return one.lower_ms if one and one.lacks(self.to.milestone.horizon_ms) else None

    @property
    def records_max(self) -> int:
        return sum(one.records_max for one in self.slices)

    def seconds(self, workers: int) -> float:
        """Return an estimate: the largest share of one worker at `RECORDS_PER_S`."""
        shares = (sum(one.records_max for one in part) for part in divided(self.slices, workers))
        return max(shares, default=0) / RECORDS_PER_S


def restorable(known: RestoreSources) -> list[Entry]:
    """Return the milestones that can be restored, oldest first."""
    return [entry for at, entry in enumerate(known.stream) if _available(known, at)]


def plan(target: Target, known: RestoreSources, since: Milestone | None = None) -> RestorePlan:
    """Plan a restore. Raises UsageError for an unknown, no longer restorable or too old milestone."""
    at = _target_index(target, known)
    entry, milestone = known.stream[at], known.stream[at].milestone
    if since is not None and since.sequence > milestone.sequence:
        raise UsageError(
            f"the folder holds a view at {since.token}, beyond {milestone.token}: views do not go back. Name "
            "another --data-dir"
        )
    held = _has_later_records(known, at)
    if since is not None and since != milestone and not held:
        raise UsageError(
            f"{milestone.token} is in a snapshot only, and the folder holds a view at {since.token} already. Name "
            "another --data-dir"
        )
    older = [one for one in known.snapshots if one.milestone.sequence <= milestone.sequence and _ours(known, one)]
    newest = _newest(older, milestone) if since is None else None
    if newest is not None and held and newest.lacks(milestone.horizon_ms):
        whole = _newest([one for one in older if not one.lacks(milestone.horizon_ms)], milestone)
        slices = _slices(known, milestone, whole.milestone.changelog_cut if whole else Cut())
        if not _deleted_slices(known, slices):
            return RestorePlan(entry, since, whole, slices, held, passed_over=newest)
    begun = newest.milestone if newest else since
    slices = _slices(known, milestone, begun.changelog_cut if begun else Cut())
    if lost := _deleted_slices(known, slices):
        first = lost[0]
        raise UsageError(
            f"partition {first.partition} of the changelog starts at {known.starts[first.partition]}, but offsets "
            f"from {first.first} are needed: records were deleted. Start a new generation"
        )
    return RestorePlan(entry, since, newest, slices, held)


def _newest(snapshots: Sequence[RestorableSnapshot], milestone: Milestone) -> RestorableSnapshot | None:
    """Return the newest one; of those of the same milestone, one without evictions."""
    ranked = (
        (one.milestone.sequence, not one.lacks(milestone.horizon_ms), at) for at, one in enumerate(snapshots)
    )
    best = max(ranked, default=None)
    return None if best is None else snapshots[best[-1]]


def _deleted_slices(known: RestoreSources, slices: Sequence[Slice]) -> list[Slice]:
    """Return the slices of which records were deleted."""
    return [one for one in slices if one.first < known.starts.get(one.partition, 0)]


def _slices(known: RestoreSources, milestone: Milestone, since: Cut) -> tuple[Slice, ...]:
    before = since.as_dict()
    return tuple(
        Slice(place.partition, before.get(place, 0), end)
        for place, end in milestone.changelog_cut
        if known.partitions is None or place.partition in known.partitions
    )


def _target_index(target: Target, known: RestoreSources) -> int:
    """Return the target's index in the stream."""
    if not known.stream:
        raise UsageError("the commit stream holds no milestone of this generation yet")
    found = [at for at, entry in enumerate(known.stream) if _is_meant(target, entry.milestone)]
    if not found:
        wanted = target.token or f"a milestone committed by {iso(target.at_ms or 0)}"
        raise UsageError(f"the commit stream does not hold {wanted}; {_those(known.stream)}")
    if target == Target():  # `latest`: the newest that can be restored
        found = [at for at in found if _available(known, at)] or found
    if not _available(known, found[-1]):
        raise UsageError(
            f"{known.stream[found[-1]].milestone.token} cannot be restored: compaction may have removed values "
            f"below its cut, and there is no snapshot of it; {_those(restorable(known))}"
        )
    return found[-1]


def _ours(known: RestoreSources, one: RestorableSnapshot) -> bool:
    """Return whether the snapshot's milestone is on this stream, or older than its retained part."""
    same = next((kept for kept in known.stream if kept.milestone.sequence == one.milestone.sequence), None)
    return (
        one.milestone.sequence < known.stream[0].milestone.sequence
        if same is None
        else same.milestone == one.milestone
    )


def _available(known: RestoreSources, at: int) -> bool:
    milestone = known.stream[at].milestone
    return _has_later_records(known, at) or any(one.milestone == milestone for one in known.snapshots)


def _is_meant(target: Target, milestone: Milestone) -> bool:
    if target.token is not None:
        return milestone.token == target.token
    return target.at_ms is None or milestone.committed_ms <= target.at_ms


def _has_later_records(known: RestoreSources, at: int) -> bool:
    milestone = known.stream[at].milestone
    following = any(known.ends.get(place.partition, 0) > end for place, end in milestone.changelog_cut)
    # The next epoch wrote what follows the cut: not before it started, or before the cut's own rows were written.
    # (A killed attempt may have written rows earlier: the check when the reader passes the cut finds them.)
    later = known.stream[at + 1].milestone.epoch_started_ms if at + 1 < len(known.stream) else milestone.written_ms
    return contained([later if following else None], known.now_ms)


def _those(entries: Sequence[Entry]) -> str:
    """Return the restorable milestones as text, contiguous ones as ranges."""
    if not entries:
        return "none of the retained milestones can be restored: wait for the next one"
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
