"""The events of a region, decoded from its topics, for DuckDB's computation over exactly these events.

An event's name is its position in the region that it was sent to. It is the same in both regions, and `first` and
`last` are ordered by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.avro.protocol_records import millis
from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.rejected_events import late_pairs
from cutwater.core.driver.rejected_events import EventPosition, LatePair
from cutwater.core.errors import DivergenceError
from cutwater.core.job.job import Job
from cutwater.core.protocol.mirror_records import SOURCE_OFFSET, from_origin

COLUMNS = ("airport", "scheduled_at", "delay_minutes", "carrier", "flight", "distance_miles")


class Name(NamedTuple):
    """An event's position in the region that it was sent to. Names sort as `first` and `last` do."""

    region: str
    partition: int
    offset: int


class Late(NamedTuple):
    event: Name
    window_start_ms: int


@dataclass(frozen=True)
class RegionEvents:
    events: Mapping[Name, Mapping[str, Any]]
    by_place: Mapping[EventPosition, Name]
    """The events by their position in this region."""

    def of(self, region: str) -> set[Name]:
        return {one for one in self.events if one.region == region}

    def frame(self) -> pd.DataFrame:
        """Return the events as the oracle expects them, sorted by name."""
        found = [self.events[name] for name in sorted(self.events)]
        made = pd.DataFrame([[one[column] for column in COLUMNS] for one in found], columns=list(COLUMNS))
        return made.assign(
            scheduled_at=[millis(one["scheduled_at"]) for one in found],
            delay_minutes=made["delay_minutes"].astype("Int64"),
        )

    def late_frame(self, late: Iterable[Late]) -> pd.DataFrame:
        """Return the pairs to leave out, by the event's row in `frame`."""
        rows = {name: number for number, name in enumerate(sorted(self.events))}
        pairs = [(rows[one.event], one.window_start_ms) for one in late if one.event in rows]
        return pd.DataFrame(pairs, columns=["produced", "window_start_ms"], dtype="int64")

    def named(self, pairs: Sequence[LatePair]) -> list[Late]:
        """Name the pairs of this region's late list. Raise DivergenceError if one's event is not here."""
        for one in pairs:
            if one.event not in self.by_place:
                raise DivergenceError(
                    f"{one.event} is listed as late and is no event: the list is of another topic"
                )
        return [Late(self.by_place[one.event], one.window_start_ms) for one in pairs]


def read_events(cluster: Cluster, job: Job, region: str, others: Sequence[str]) -> RegionEvents:
    """Read a region's own source and its copies of the other regions' sources, if they exist."""
    every = {job.topic: region, **{from_origin(job.topic, other): other for other in others}}
    topics = {one: every[one] for one in descriptions(cluster, list(every))}
    codec = Codec(job.event_schema)
    events: dict[Name, Mapping[str, Any]] = {}
    by_place: dict[EventPosition, Name] = {}
    for topic, origin in topics.items():
        for place, there, value in _records(cluster, topic, origin != region):
            name = Name(origin, place.partition, there)
            if name in events:
                raise DivergenceError(f"{place} is a second copy of {name}")
            events[name], by_place[place] = codec.decode(value), name
    return RegionEvents(events, by_place)


def read_late_list(cluster: Cluster, job: Job, here: RegionEvents) -> list[Late]:
    """Return the pairs that this region's own generations have listed as late. Another region's pairs are on its
    own list. The sums show whether all pairs are listed."""
    return here.named(late_pairs(cluster, job.name).entries)


def _records(cluster: Cluster, topic: str, copied: bool) -> Iterator[tuple[EventPosition, int, bytes]]:
    """Yield position here, offset in the region it was sent to, and value of every record."""
    consumer = make_consumer(cluster)
    try:
        for partition in range(partition_count(cluster, topic)):
            low, high = bounds(consumer, topic, partition)
            for message in read_range(consumer, topic, partition, low) if low < high else ():
                there = _source_offset(message.headers()) if copied else message.offset()
                yield EventPosition(topic, partition, message.offset()), there, message.value()
    finally:
        consumer.close()


def _source_offset(headers: Sequence[tuple[str, bytes]] | None) -> int:
    found = [value for name, value in headers or () if name == SOURCE_OFFSET]
    return int(found[-1])
