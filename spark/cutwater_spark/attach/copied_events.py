"""How far an epoch of an attached query has read the copy of another region's events, in the offsets there.

A job file's query observes the mirror's headers as it reads. The plan of a user's own query is the user's, so the
last record of each copied partition is read once more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import DivergenceError
from cutwater.core.generations.source_topics import copied_region
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.mirror_records import SOURCE_OFFSET

FIRST_STEP = 64
"""Offsets that are read first, and twice as many while they hold only markers of transactions."""


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
    consumer, found = make_consumer(cluster), dict[TopicPartition, int]()
    try:
        for place, first, end in read:
            kept_from = max(first, bounds(consumer, *place)[0])
            last = last_record(partial(read_range, consumer, *place, end=end), kept_from, end)
            if last is not None:
                found[place] = _offset_there(last) + 1
    finally:
        consumer.close()
    return found


def last_record(read_from: Callable[[int], Iterable[Any]], first: int, end: int) -> Any:
    """Return the last record from `first` up to `end`; None if only markers of transactions are there.

    `read_from`: returns the records from an offset up to `end`.
    """
    at, step = end, FIRST_STEP
    while at > first:
        at, step = max(first, end - step), 2 * step
        if newest := deque(read_from(at), maxlen=1):
            return newest[0]
    return None


def _offset_there(record: Any) -> int:
    headers = dict(record.headers() or [])
    if SOURCE_OFFSET not in headers:
        raise DivergenceError(
            f"{record.topic()}/{record.partition()}@{record.offset()} has no header with its offset in its "
            "region, so no mirror has written it. Find out which other program writes to this topic"
        )
    return int(headers[SOURCE_OFFSET])
