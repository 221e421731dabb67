"""Source topics of a generation: its region's own source, and copies of other regions' sources.

A generation reads the topics of its parent's source cut; a job's first one reads only the job file's. For `first`
and `last`, an event of a copy is ordered by its place in its origin, so that all regions agree. How far a copy was
read is recorded in the offsets of both regions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import REGION_PATTERN
from cutwater.core.protocol.mirror_records import from_origin
from cutwater.core.protocol.records import Claim, Milestone


@dataclass(frozen=True)
class Sources:
    """The sources of one generation."""

    topic: str
    """The job's own source."""
    region: str
    """The region where the generation runs: the origin of the events in its own source."""
    partitions: Mapping[str, int]
    """Partition count by topic."""

    @property
    def copies(self) -> dict[str, str]:
        """Region by topic, for the topics that are copies."""
        found = {topic: copied_region(self.topic, topic) for topic in sorted(self.partitions)}
        return {topic: region for topic, region in found.items() if region is not None}

    @property
    def firsts(self) -> dict[str, int]:
        """The number of each topic's partition 0, with all partitions numbered consecutively."""
        firsts, number = dict[str, int](), 0
        # The own source comes last: it may get more partitions, whose numbers must be free.
        for topic in (*self.copies, self.topic):
            firsts[topic] = number
            number += self.partitions.get(topic, 0)
        return firsts

    @property
    def places(self) -> tuple[TopicPartition, ...]:
        """Every partition, by its number."""
        counts = [(topic, self.partitions.get(topic, 0)) for topic in self.firsts]
        return tuple(TopicPartition(topic, number) for topic, count in counts for number in range(count))


def only(topic: str, region: str, partitions: int = 0) -> Sources:
    """Return the own source alone."""
    return Sources(topic, region, {topic: partitions})


def topics_of(source: str, cut: Cut) -> list[str]:
    """Return the topics that a generation with this parent source cut reads; for an empty cut the own source."""
    return sorted({place.topic for place, _ in cut}) or [source]


def copied_region(source: str, topic: str) -> str | None:
    """Return the region whose `source` is copied to this topic; None if the topic is not such a copy."""
    prefix = from_origin(source, "")
    region = topic.removeprefix(prefix)
    return region if topic.startswith(prefix) and re.fullmatch(REGION_PATTERN, region) else None


def origin_cut_at(source: str, claim: Claim, parent: Milestone) -> Cut:
    """Return a candidate's start in the next offsets of the regions that its copies are from.

    `parent`: the milestone as in the claim. If it is another region's, its source cut has that region's offsets of
    the source that is a copy here, and its `origin_cut` the origins' offsets of other copies. Entries of a third
    region stay even if its copy is not read here: their events are in the state and must not count again.
    """
    if not claim.origin:
        return parent.origin_cut
    here = {place.topic for place, _ in claim.source_cut}
    copy, home = from_origin(source, claim.origin), from_origin(source, claim.generation.region)
    both = {place: offset for place, offset in parent.origin_cut if place.topic != home}
    read = {TopicPartition(copy, at.partition): offset for at, offset in parent.source_cut if at.topic == source}
    return Cut.of({**both, **(read if copy in here else {})})


def moved_on(origin_cut: Cut, read: Mapping[TopicPartition, int]) -> Cut:
    """Return the cut after an epoch; `read`: the epoch's next offset by place. Other places do not move."""
    known = origin_cut.as_dict()
    return Cut.of({**known, **{place: max(known.get(place, 0), following) for place, following in read.items()}})
