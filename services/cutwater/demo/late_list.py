"""Checks the demonstration's late list against the events: each pair is real, and listed once.

`check` is pure. An event's position on the topic is read from the topic, not from the list.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.avro.protocol_records import millis
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.rejected_events import late_pairs
from cutwater.core.driver.rejected_events import LatePair
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.job.windows import WindowSpec
from cutwater.demo import oracle
from cutwater.demo.flights import CLOSING_AIRPORT

FAULTS_SHOWN = 20


@dataclass(frozen=True)
class Lost:
    """The result of the check that every pair is counted or listed exactly once."""

    lines: list[str]
    wrong: bool

    def __bool__(self) -> bool:
        return self.wrong


class Stored(NamedTuple):
    place: tuple[int, int]
    """(partition, offset)"""
    event: Mapping[str, Any]


class Checked(NamedTuple):
    """Late pairs by the event's index in production order, and the list's faults."""

    pairs: pd.DataFrame
    """Columns `produced` and `window_start_ms`."""
    faults: list[str]


def read_late_list(cluster: Cluster, job: Job, events: pd.DataFrame) -> Checked:
    found = late_pairs(cluster, job.name)
    where = places(events, stored_events(cluster, job)) if found.entries else {}
    checked = check(found.entries, events, where, job.window, job.row_windows)
    return checked._replace(faults=[*found.problems, *checked.faults])


def check_pairs(events: pd.DataFrame, window: WindowSpec, late: Checked, counted: int) -> Lost:
    """Check that the `counted` pairs and the late ones are all pairs, and that the list has no fault."""
    pairs = oracle.pairs(events, window.size_ms, window.slide_ms)
    left = pairs - counted - len(late.pairs)
    sums = f"{counted:,} counted and {len(late.pairs):,} late, of {pairs:,} (event, window) pairs: {left} lost"
    faults = [f"the late list is wrong: {one}" for one in late.faults[:FAULTS_SHOWN]]
    return Lost([sums, *faults], bool(late.faults) or left != 0)


def stored_events(cluster: Cluster, job: Job) -> Iterator[Stored]:
    """Yield every event of the source topic except the closing one, partition by partition."""
    codec = Codec(job.event_schema)
    consumer = make_consumer(cluster)
    try:
        for partition in range(partition_count(cluster, job.topic)):
            low, high = bounds(consumer, job.topic, partition)
            for message in read_range(consumer, job.topic, partition, low) if low < high else ():
                event = codec.decode(message.value())
                if event["airport"] != CLOSING_AIRPORT:
                    yield Stored((partition, message.offset()), event)
    finally:
        consumer.close()


def places(events: pd.DataFrame, topic: Iterable[Stored]) -> dict[tuple[int, int], int]:
    """Return the index in production order of each event on the topic. The events of one airport are in one
    partition, in production order. Raise UsageError if the topic does not hold exactly these events."""
    columns = zip(events["airport"], events["scheduled_at"], events["flight"], events["kind"], strict=True)
    waiting: dict[str, Iterator[tuple[int, tuple[Any, ...]]]] = {}
    by_airport: dict[str, list[tuple[int, tuple[Any, ...]]]] = defaultdict(list)
    for produced, (airport, *rest) in enumerate(columns):
        by_airport[airport].append((produced, tuple(rest)))
    waiting = {airport: iter(rows) for airport, rows in by_airport.items()}
    found: dict[tuple[int, int], int] = {}
    for one in topic:
        event = one.event
        produced, wanted = next(waiting.get(event["airport"], iter(())), (-1, ()))
        if wanted != (millis(event["scheduled_at"]), event["flight"], event["kind"]):
            raise UsageError(
                f"{one.place[0]}@{one.place[1]} of the source is not the event that was produced there"
            )
        found[one.place] = produced
    if len(found) != len(events):
        raise UsageError(f"the source topic holds {len(found)} of {len(events)} events")
    return found


def check(
    pairs: Sequence[LatePair],
    events: pd.DataFrame,
    where: Mapping[tuple[int, int], int],
    window: WindowSpec,
    pane: WindowSpec,
) -> Checked:
    """Check that each entry has an existing event, a pane with its time, and a watermark past the pane."""
    airports, times = events["airport"].tolist(), events["scheduled_at"].tolist()
    faults: list[str] = []
    rows: list[tuple[int, int]] = []
    for one in pairs:
        produced = where.get((one.event.partition, one.event.offset))
        if produced is None:
            faults.append(f"{one.event} is not an event of the source")
            continue
        rows += [(produced, start_ms) for start_ms in window.starts(one.event_time_ms)]
        real = (airports[produced], times[produced]) == (one.key, one.event_time_ms)
        holds = one.window_start_ms in pane.starts(one.event_time_ms)
        closed = one.window_end_ms == one.window_start_ms + pane.size_ms <= one.watermark_ms
        if not (real and holds and closed):
            faults.append(f"{one.event} is not late for {one.key}'s window from {one.window_start_ms}")
    faults += [f"{pair} is listed {times_} times" for pair, times_ in Counter(rows).items() if times_ > 1]
    return Checked(pd.DataFrame(rows, columns=["produced", "window_start_ms"], dtype="int64"), faults)
