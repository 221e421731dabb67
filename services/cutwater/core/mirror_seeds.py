"""May the copy of a changelog begin from a snapshot of the origin's view? Decided before anything is given up.

A snapshot is the state at milestone M: the newest value of every key and window above M's horizon, and nothing of
how it came about. Put in place of the origin's log below M's changelog cut, it gives every later milestone whole:
what that one proves, its own epoch's rows, lies above the cut. M itself cannot be proved: it never arrives.
"""

from __future__ import annotations

from collections.abc import Mapping

from cutwater.core import topics
from cutwater.core.cuts import TopicPartition
from cutwater.core.errors import UsageError
from cutwater.core.gaps import gaps
from cutwater.core.generations import Generation
from cutwater.core.moments import iso
from cutwater.core.records import Milestone


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


def unfit(milestone: Milestone, lower_ms: int | None, topic: str, kept: Mapping[int, tuple[int, int]]) -> str:
    """Why a snapshot of this milestone cannot stand for the log below its cut; empty where it can.

    `lower_ms`: windows that end at or below it were evicted from the view. `kept`: first offset and end of every
    partition of the origin's log.
    """
    others = [one for one, _ in milestone.changelog_cut if one.topic != topic or one.partition not in kept]
    if others:
        return f"its cut names {others[0].topic}/{others[0].partition}, which is not there"
    if not milestone.rows:
        # Milestones before it may have the same cut, and windows that its horizon has passed.
        return "no row was written in its epoch: milestones before it cannot be told from it"
    if lower_ms is not None and lower_ms > milestone.horizon_ms:
        return f"windows that end by {iso(lower_ms)} were evicted from the view (max_bytes)"
    cuts = cuts_of(milestone, topic, len(kept))
    missing = gaps({number: (at, at) for number, at in cuts.items()}, kept)
    return f"{topic} in the origin: {'; '.join(missing)}" if missing else ""
