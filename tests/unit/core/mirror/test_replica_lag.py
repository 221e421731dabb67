"""How far behind: what is known counts, what is not is said to be unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.core.mirror.copy_progress import OriginPartition, initial_position
from cutwater.core.mirror.replica_lag import Pace, awaited, safe_time
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import Arrival, Mirrored
from cutwater.core.protocol.topics import changelog
from support.protocol_samples import milestone


def copy(partition: int, next_: int, source_ms: int, at_ms: int = 0, records: int = 10) -> Mirrored:
    one = initial_position("flights", "us", OriginPartition("t", partition, "id", 2), 0, 0, 0)
    return replace(one, next=next_, records=records, size=100 * records, source_ms=source_ms, at_ms=at_ms)


def arrival(sequence: int, committed_ms: int) -> Arrival:
    return Arrival(
        "flights", "us", Generation(1, "us"), sequence, b"", 0, Cut(), Cut(), 7_000, committed_ms, committed_ms
    )


NEWEST = replace(milestone(4), sequence=5, committed_ms=60_000)


def test_lag_is_told_in_each_unit() -> None:
    copies = [copy(0, 90, 50_000), copy(1, 40, 20_000)]
    ends = {TopicPartition("t", 0): 100, TopicPartition("t", 1): 60}
    found = safe_time("us", copies, arrival(3, 45_000), NEWEST, ends, 10.0, 61_000)
    assert (found.token, found.watermark_ms) == ("g1-us-00000000:3", 7_000)
    assert (found.milestones, found.lag_ms, found.age_ms) == (2, 15_000, 16_000)
    assert (found.records, found.size, found.catch_up_s) == (30, 3_000, 3.0)
    assert found.skew_ms == 30_000


def test_a_quiet_partition_is_no_skew_and_no_lag() -> None:
    """Its newest record may be a year old: it is not behind."""
    copies = [copy(0, 100, 50_000), copy(1, 60, 0)]
    ends = {TopicPartition("t", 0): 100, TopicPartition("t", 1): 60}
    found = safe_time("us", copies, arrival(5, 60_000), NEWEST, ends, 0.0, 61_000)
    assert (found.milestones, found.lag_ms, found.records, found.skew_ms, found.catch_up_s) == (0, 0, 0, 0, 0.0)


def test_what_is_not_known_is_none() -> None:
    """The origin away, nothing arrived; and at a standstill there is no estimate."""
    found = safe_time("us", [copy(0, 90, 0)], None, None, None, 5.0, 0)
    assert (found.token, found.age_ms, found.milestones, found.records, found.catch_up_s) == (None,) * 5
    stuck = safe_time("us", [copy(0, 90, 0)], None, NEWEST, {TopicPartition("t", 0): 100}, 0.0, 0)
    assert (stuck.records, stuck.catch_up_s, stuck.milestones) == (10, None, 5)


def test_the_pace_is_that_of_the_last_minute() -> None:
    """Positions that come again count nothing; old ones are forgotten."""
    pace = Pace()
    for second in range(0, 200, 10):
        for _ in range(2):
            pace.take(copy(0, 0, 0, at_ms=1_000 * second, records=10 + second * 100))
    assert pace.per_second(190_000) == pytest.approx(100, rel=0.2)
    assert pace.per_second(400_000) == 0.0


def test_nothing_is_asked_of_what_no_arrival_waits_for() -> None:
    """The changelog of a generation before that of the newest arrival may be gone; all else counts."""
    first, second, third = (Generation(one, "us", f"{one:08x}") for one in (1, 2, 3))
    places = [OriginPartition(changelog("flights", one), 0, "id", 1) for one in (first, second, third)]
    copies = [
        initial_position("flights", "us", one, 0, 0, 0) for one in (*places, OriginPartition("t", 0, "id", 1))
    ]
    assert awaited(copies, None) == copies
    assert awaited(copies, arrival(3, 0)) == copies
    assert awaited(copies, replace(arrival(3, 0), generation=second)) == copies[1:]
