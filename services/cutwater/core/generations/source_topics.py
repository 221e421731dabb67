"""The topics that a generation reads: its region's own source, and copies of other regions' ones.

A generation goes on with the topics of its parent's source cut; a job's first one has the job file's alone. In
the order of `first` and `last`, an event of a copy stands where it stood in the region that it comes from, so that
all regions agree; and how far a copy was read is told in the offsets of both.
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
    """What one generation reads."""

    topic: str
    """The job's own source."""
    region: str
    """Where the generation runs: the origin of what stands in the own source."""
    partitions: Mapping[str, int]
    """How many each of the topics has."""

    @property
    def copies(self) -> dict[str, str]:
        """The topics that are copies, and the region of each."""
        found = {topic: copied_region(self.topic, topic) for topic in sorted(self.partitions)}
        return {topic: region for topic, region in found.items() if region is not None}

    @property
    def firsts(self) -> dict[str, int]:
        """The number of each topic's partition 0, where all partitions are numbered one after another."""
        firsts, number = dict[str, int](), 0
        # The own source last: its partitions may become more meanwhile, and their numbers are nobody else's.
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
    """The own source alone."""
    return Sources(topic, region, {topic: partitions})


def topics_of(source: str, cut: Cut) -> list[str]:
    """What a generation reads whose parent's source cut this is; with an empty one the job's own source."""
    return sorted({place.topic for place, _ in cut}) or [source]


def copied_region(source: str, topic: str) -> str | None:
    """The region of whose `source` a topic is the copy here; None where it is no such copy."""
    prefix = from_origin(source, "")
    region = topic.removeprefix(prefix)
    return region if topic.startswith(prefix) and re.fullmatch(REGION_PATTERN, region) else None


def origin_cut_at(source: str, claim: Claim, parent: Milestone) -> Cut:
    """Where a candidate begins, in the offsets of the regions that its copies come from: their next ones there.

    `parent` is the milestone as it stands in the claim. One of another region says in its source cut what it had
    read of its own source, which is a copy here; of other copies it says the origin's offsets. Those of a third
    region stay even where nothing is read on here: their events are in the state, and nobody may count them again.
    """
    if not claim.origin:
        return parent.origin_cut
    here = {place.topic for place, _ in claim.source_cut}
    copy, home = from_origin(source, claim.origin), from_origin(source, claim.generation.region)
    both = {place: offset for place, offset in parent.origin_cut if place.topic != home}
    read = {TopicPartition(copy, at.partition): offset for at, offset in parent.source_cut if at.topic == source}
    return Cut.of({**both, **(read if copy in here else {})})


def moved_on(origin_cut: Cut, read: Mapping[TopicPartition, int]) -> Cut:
    """The same behind an epoch that has `read` so far, by place; where it has read nothing, nothing moves."""
    known = origin_cut.as_dict()
    return Cut.of({**known, **{place: max(known.get(place, 0), following) for place, following in read.items()}})
