"""How far an epoch of an attached query has read the copy of another region's events, in the offsets there.

A job file's query observes the mirror's headers as it reads. The plan of a user's own query is the user's, so the
last record of each copied partition is read once more.
"""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import Consumer

from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import DivergenceError
from cutwater.core.generations.source_topics import copied_region
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.mirror_records import SOURCE_OFFSET

FIRST_STEP = 64
"""Offsets that are read first; as many again if they hold only markers of transactions."""


def copied_events(cluster: Cluster, source: str, before: Cut, cut: Cut) -> dict[TopicPartition, int]:
    """Return the next offset in its region by copied partition, for those that the epoch has read events of.

    Raise DivergenceError if a record of a copy has no header with its offset.
    """
    known = before.as_dict()
    read = [
        (place, known.get(place, 0), end)
        for place, end in cut
        if copied_region(source, place.topic) is not None and end > known.get(place, 0)
    ]
    if not read:
        return {}
    consumer = make_consumer(cluster)
    try:
        last = ((place, _last(consumer, place, first, end)) for place, first, end in read)
        return {place: offset + 1 for place, offset in last if offset is not None}
    finally:
        consumer.close()


def _last(consumer: Consumer, place: TopicPartition, first: int, end: int) -> int | None:
    """Return the offset there of the last record from `first` up to `end`; None if there is none."""
    first = max(first, bounds(consumer, *place)[0])
    for at in _backwards(first, end):
        found = None
        for message in read_range(consumer, *place, at, end):
            found = message
        if found is not None:
            told = dict(found.headers() or [])
            if SOURCE_OFFSET not in told:
                raise DivergenceError(
                    f"{place.topic}/{place.partition}@{found.offset()} has no header with its offset in its "
                    "region, so no mirror has written it. Find out which other program writes to this topic"
                )
            return int(told[SOURCE_OFFSET])
    return None


def _backwards(first: int, end: int) -> Iterator[int]:
    """Return where to begin to read, each time further back."""
    step = FIRST_STEP
    while end - step > first:
        yield end - step
        step *= 2
    if first < end:
        yield first
