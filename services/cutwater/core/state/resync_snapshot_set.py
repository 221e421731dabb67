"""Resync of a copied changelog from snapshots of the origin's view: the checks before anything is deleted.

A snapshot is the state at milestone M: the newest value of every key and window above M's horizon. It can replace
the origin's log below M's changelog cut: later milestones prove only rows of their own epochs, which are above the
cut. M itself cannot be proved, so it never arrives.

Views that share the partitions have one snapshot each. Together they are the state at M if all are of exactly this
milestone, by its bytes, and no partition is missing.
"""

from __future__ import annotations

from collections.abc import Mapping

from cutwater.core.errors import UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.missing_offsets import gaps
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import Manifest
from cutwater.core.state.snapshot_set import Share, covering, evicted
from cutwater.core.util.timestamps import iso


def generation_of(job: str, topic: str, region: str) -> Generation | None:
    """Return a changelog topic's generation; None for other topics. Raises UsageError for another region's one."""
    generation = topics.generation_of(job, topic)
    if generation is not None and generation.region != region:
        raise UsageError(
            f"{topic} is a changelog of region {generation.region}: it is not copied from {region}. Nothing was "
            "deleted"
        )
    return generation


def cuts_of(milestone: Milestone, topic: str, partitions: int) -> dict[int, int]:
    """Return a milestone's changelog cut by partition; 0 for a partition that the cut does not name."""
    cut = milestone.changelog_cut.as_dict()
    return {number: cut.get(TopicPartition(topic, number), 0) for number in range(partitions)}


def unfit(
    milestone: Milestone,
    lower_ms: int | None,
    topic: str,
    kept: Mapping[int, tuple[int, int]],
    horizon_ms: int | None = None,
) -> str:
    """Return why a snapshot of this milestone cannot replace the log below its cut; empty if it can.

    `lower_ms`: windows that end at or below it were evicted from the view. `kept`: first offset and end of each
    partition of the origin's log. `horizon_ms`: the horizon of the generation's newest milestone.
    """
    others = [one for one, _ in milestone.changelog_cut if one.topic != topic or one.partition not in kept]
    if others:
        return f"its cut names {others[0].topic}/{others[0].partition}, which is not there"
    if not milestone.rows:
        # Earlier milestones may have the same cut, but windows that this one's horizon has passed.
        return "no row was written in its epoch: it cannot be distinguished from earlier milestones"
    if reason := evicted(milestone, lower_ms):
        return reason
    if horizon_ms is not None and horizon_ms < milestone.horizon_ms:
        return (
            f"`retention` was made longer since: the state now has windows that end after {iso(horizon_ms)}, "
            f"but the snapshot has none that end by {iso(milestone.horizon_ms)}"
        )
    cuts = cuts_of(milestone, topic, len(kept))
    missing = gaps({number: (at, at) for number, at in cuts.items()}, kept)
    return f"{topic} in the origin: {'; '.join(missing)}" if missing else ""


def find_complete_set(parts: Mapping[str, Manifest], partitions: int) -> tuple[tuple[Share, ...], Partitions]:
    """Return the snapshots of one sequence to read, and the partitions that none holds, as `covering` does.

    `parts`: the manifests by name. All that are returned are of one milestone, by bytes and offset: of the most
    complete one.
    """
    by_milestone: dict[tuple[bytes, int], dict[str, Partitions | None]] = {}
    for name, one in parts.items():
        by_milestone.setdefault((one.record, one.offset), {})[name] = one.partitions
    sets = (covering(held, partitions) for held in by_milestone.values())
    return min(sets, key=lambda one: len(one[1]), default=((), frozenset(range(partitions))))
