"""Overlap of the events in two states, by their milestones: states may be merged if no event counts in both.

A generation reads its region's own source, and copies of other regions' sources; its milestones name all of them
with the offsets read. The events of the state that it continued are named too: as a source that is still read, or
only in the origin cut (`core.generations.source_topics.origin_cut_at`). So the partitions in a milestone, each
with the region of its producers, cover every event in its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import NamedTuple

from cutwater.core.generations.source_topics import copied_region
from cutwater.core.protocol.records import Milestone

PARTITIONS_TOLD = 8


class Source(NamedTuple):
    """A partition of a source topic, in the region whose producers write to it."""

    region: str
    topic: str
    partition: int


def counted_sources(milestone: Milestone, source: str) -> frozenset[Source]:
    """Return the partitions whose events are in a milestone's state. `source`: the job's source topic. Partitions
    that were not read beyond offset 0 are left out."""
    own, found = milestone.generation.region, set()
    for place, offset in (*milestone.source_cut, *milestone.origin_cut):
        if offset > 0:
            region = copied_region(source, place.topic)
            found.add(Source(region or own, source if region else place.topic, place.partition))
    return frozenset(found)


def counted_twice(states: Mapping[str, frozenset[Source]]) -> dict[str, str]:
    """Return, by state name, the reason for each state that counts events which another one counts too."""
    found: dict[str, list[str]] = {}
    for one, other in combinations(sorted(states), 2):
        if both := states[one] & states[other]:
            found.setdefault(one, []).append(f"{other} ({describe_sources(both)})")
            found.setdefault(other, []).append(f"{one} ({describe_sources(both)})")
    return {
        name: f"its events would count twice, since they are also in {', '.join(of)}" for name, of in found.items()
    }


def describe_sources(sources: Iterable[Source]) -> str:
    """Format the topics with their regions and first partitions."""
    of: dict[tuple[str, str], list[int]] = {}
    for region, topic, partition in sorted(sources):
        of.setdefault((region, topic), []).append(partition)
    return "; ".join(
        f"region {region}'s {topic}/{','.join(map(str, numbers[:PARTITIONS_TOLD]))}"
        f"{',…' if len(numbers) > PARTITIONS_TOLD else ''}"
        for (region, topic), numbers in of.items()
    )
