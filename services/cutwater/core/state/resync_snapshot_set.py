"""May the copy of a changelog begin from a snapshot of the origin's view? Decided before anything is given up.

A snapshot is the state at milestone M: the newest value of every key and window above M's horizon, and nothing of
how it came about. Put in place of the origin's log below M's changelog cut, it gives every later milestone whole:
what that one proves, its own epoch's rows, lies above the cut. M itself cannot be proved: it never arrives.

Views that share the partitions have a snapshot each. Together they are the state at M where all of them are of
the very milestone M, by its bytes, and no partition is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cutwater.core.errors import UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.missing_offsets import gaps
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import Manifest
from cutwater.core.util.timestamps import iso


def generation_of(job: str, topic: str, region: str) -> Generation | None:
    """The generation whose changelog a topic is; None for other topics.

    Raises UsageError for a changelog of another region than `region`: it is no copy, and keeps its name here too.
    """
    generation = topics.generation_of(job, topic)
    if generation is not None and generation.region != region:
        raise UsageError(
            f"{topic} is a changelog of region {generation.region}: it is not copied from {region}. Nothing was "
            "deleted"
        )
    return generation


def cuts_of(milestone: Milestone, topic: str, partitions: int) -> dict[int, int]:
    """Where a milestone's changelog cut lies in each partition; one that is not named has contributed nothing."""
    cut = milestone.changelog_cut.as_dict()
    return {number: cut.get(TopicPartition(topic, number), 0) for number in range(partitions)}


def unfit(
    milestone: Milestone,
    lower_ms: int | None,
    topic: str,
    kept: Mapping[int, tuple[int, int]],
    horizon_ms: int | None = None,
) -> str:
    """Why a snapshot of this milestone cannot stand for the log below its cut; empty where it can.

    `lower_ms`: windows that end at or below it were evicted from the view. `kept`: first offset and end of every
    partition of the origin's log. `horizon_ms`: that of the generation's newest milestone.
    """
    others = [one for one, _ in milestone.changelog_cut if one.topic != topic or one.partition not in kept]
    if others:
        return f"its cut names {others[0].topic}/{others[0].partition}, which is not there"
    if not milestone.rows:
        # Milestones before it may have the same cut, and windows that its horizon has passed.
        return "no row was written in its epoch: milestones before it cannot be told from it"
    if lower_ms is not None and lower_ms > milestone.horizon_ms:
        return f"windows that end by {iso(lower_ms)} were evicted from the view (max_bytes)"
    if horizon_ms is not None and horizon_ms < milestone.horizon_ms:
        return (
            f"`retention` was made longer since: the state now has windows that end after {iso(horizon_ms)}, "
            f"and the snapshot none that end by {iso(milestone.horizon_ms)}"
        )
    cuts = cuts_of(milestone, topic, len(kept))
    missing = gaps({number: (at, at) for number, at in cuts.items()}, kept)
    return f"{topic} in the origin: {'; '.join(missing)}" if missing else ""


def together(parts: Iterable[Manifest], partitions: int) -> tuple[list[tuple[Manifest, Partitions]], Partitions]:
    """Of snapshots of one sequence those that make the whole state, each with the partitions to take of it.

    And the partitions that nobody holds. All are of one milestone, by its bytes and its place on the stream: where
    there are several, of that of which most is there.
    """
    by_milestone: dict[tuple[bytes, int], list[Manifest]] = {}
    for one in parts:
        by_milestone.setdefault((one.record, one.offset), []).append(one)
    every = frozenset(range(partitions))
    best: tuple[list[tuple[Manifest, Partitions]], Partitions] = ([], every)
    for same in by_milestone.values():
        taken, left = [], every
        # The largest first: fewer files, and of what two of them hold only one is taken.
        for one in sorted(same, key=lambda one: -len(_held(one, every))):
            if mine := _held(one, left):
                taken.append((one, mine))
                left -= mine
        if not best[0] or len(left) < len(best[1]):
            best = taken, left
    return best


def _held(one: Manifest, of: Partitions) -> Partitions:
    return of if one.partitions is None else of & one.partitions
