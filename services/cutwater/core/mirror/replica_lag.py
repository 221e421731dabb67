"""Lag of a replica behind its origin in milestones, records, bytes and time, with an estimate of the catch-up."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cutwater.core.generations.retention import is_superseded
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.mirror_records import Arrival, Mirrored
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.topics import generation_of

PACE_MS = 60_000
"""The pace is measured over the last minute."""
SAMPLES_MAX = 10_000


@dataclass(frozen=True)
class SafeTime:
    """A replica at one time; None: unknown."""

    origin: str
    token: str | None
    """The newest milestone that has arrived."""
    watermark_ms: int | None
    age_ms: int | None
    """Time since the origin wrote it."""
    milestones: int | None
    """Milestones copied and not arrived yet."""
    lag_ms: int | None
    """Time between it and the newest copied milestone."""
    records: int | None
    """Records in the origin that are not copied, aborted ones included."""
    size: int | None
    """Estimated bytes of these records, by the mean size so far."""
    skew_ms: int
    """Lag of a topic's slowest partition behind its fastest, in the origin's time."""
    records_per_s: float
    catch_up_s: float | None
    """Time to copy `records` at this pace, without new ones."""


class Pace:
    """Records copied in the last minute, over all partitions. Bounded; positions may be repeated."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, int] = {}
        self._lately: deque[tuple[int, int]] = deque(maxlen=SAMPLES_MAX)

    def take(self, one: Mirrored) -> None:
        place = TopicPartition(one.topic, one.partition)
        more = one.records - self._known.get(place, one.records)
        self._known[place] = one.records
        if more > 0:
            self._lately.append((one.at_ms, more))

    def per_second(self, now_ms: int) -> float:
        while self._lately and self._lately[0][0] < now_ms - PACE_MS:
            self._lately.popleft()
        if not self._lately:
            return 0.0
        over_ms = max(1_000, now_ms - self._lately[0][0])
        return 1_000 * sum(records for _, records in self._lately) / over_ms


def awaited(copies: Iterable[Mirrored], arrived: Arrival | None) -> list[Mirrored]:
    """Return the copies that the next arrival may wait for. Changelogs of earlier generations are left out: their
    region may have removed them, which would make the lag unknown."""
    if arrived is None:
        return list(copies)
    return [one for one in copies if not is_superseded(generation_of(one.job, one.topic), arrived.generation)]


def safe_time(
    origin: str,
    copies: Collection[Mirrored],
    arrived: Arrival | None,
    newest: Milestone | None,
    ends: Mapping[TopicPartition, int] | None,
    records_per_s: float,
    now_ms: int,
) -> SafeTime:
    """Return the lag. `newest`: the newest copied milestone. `ends`: the origin's ends; None if unreachable."""
    behind = None if ends is None else {_place(one): max(0, ends.get(_place(one), 0) - one.next) for one in copies}
    records = None if behind is None else sum(behind.values())
    size = None if behind is None else round(sum(behind[_place(one)] * _mean(one) for one in copies))
    before = arrived.sequence if arrived else 0
    return SafeTime(
        origin=origin,
        token=str(arrived.token) if arrived else None,
        watermark_ms=arrived.watermark_ms if arrived else None,
        age_ms=max(0, now_ms - arrived.committed_ms) if arrived else None,
        milestones=max(0, newest.sequence - before) if newest else None,
        lag_ms=max(0, newest.committed_ms - arrived.committed_ms) if newest and arrived else None,
        records=records,
        size=size,
        skew_ms=_skew_ms(copies, behind or {}),
        records_per_s=records_per_s,
        catch_up_s=_catch_up_s(records, records_per_s),
    )


def _place(one: Mirrored) -> TopicPartition:
    return TopicPartition(one.topic, one.partition)


def _mean(one: Mirrored) -> float:
    return one.size / one.records if one.records else 0.0


def _catch_up_s(records: int | None, records_per_s: float) -> float | None:
    if records is None or (records and not records_per_s):
        return None
    return records / records_per_s if records else 0.0


def _skew_ms(copies: Collection[Mirrored], behind: Mapping[TopicPartition, int]) -> int:
    """Return the largest skew; a partition that is not behind has none, however old its newest record is."""
    found = 0
    for topic in {one.topic for one in copies}:
        times = [one.source_ms for one in copies if one.topic == topic and one.records]
        late = [one.source_ms for one in copies if one.topic == topic and one.records and behind.get(_place(one))]
        found = max([found, *(max(times) - one for one in late)])
    return found
