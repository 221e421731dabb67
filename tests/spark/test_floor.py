"""`late.amend_for` in a driver: no watermark in Spark's plan, a floor that cleanings raise, events that amend."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.topics.recovery_log import history
from cutwater.adapters.topics.rejected_events import late_pairs
from support.events import counting
from support.harness import Flow, flow, wait_until

pytestmark = pytest.mark.spark
HOUR_MS = 3_600_000
CLEANED = "windows that end up to"


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    text = counting.job_text(unique("floor"), per_epoch=100_000).replace("lateness: 1h", "lateness: 5m")
    with flow(broker.cluster, text + "late: {amend_for: 20m}\n", tmp_path, counting.SCHEMA) as made:
        made.settings["CUTWATER_CLEANING_REST_MS"] = "0"
        yield made


def at(hour: float, count: int = 300, seed: int = 7) -> list[dict[str, Any]]:
    return [{**one, "at": one["at"] + int(hour * HOUR_MS)} for one in counting.events(count, seed)]


def cleanings(job: Flow) -> int:
    return sum(CLEANED in one.decision for one in history(job.cluster, job.job.name, 100))


@pytest.mark.slow
def test_events_amend_until_the_floor_and_are_late_below_it(job: Flow) -> None:
    """Each event is counted or on the list, whichever query read it; windows below the floor leave the state."""
    job.signal()
    driver = job.driver()
    produced = at(0)
    job.produce(produced)
    first = job.wait_committed()
    assert (first.floor_ms, first.late, first.amended) == (0, 0, 0)
    assert first.watermark_ms == max(one["at"] for one in produced) - 300_000, "of its own events"

    for more in (at(0.3), at(0, seed=8)):  # the second behind the watermark, and above the floor
        job.produce(more)
        produced += more
        newest = job.wait_committed()
    assert newest.amended > 0
    assert (newest.floor_ms, newest.late, cleanings(job)) == (0, 0, 0)
    assert job.state(newest) == counting.expected(produced)

    for more in (at(6), at(6, seed=8)):  # a cleaning needs an epoch with events
        job.produce(more)
        produced += more
        job.wait_committed()
    wait_until(lambda: cleanings(job) > 0, "a cleaning", 60)
    late = at(0, 50, seed=9)
    job.produce(late)
    newest = job.wait_committed()
    assert counting.START_MS < newest.floor_ms <= newest.watermark_ms - 1_200_000
    assert newest.late == len(late)
    assert len(late_pairs(job.cluster, job.job.name).entries) == len(late)
    driver.kill()
    driver.wait()
    produced += (more := at(6.1, seed=10))
    job.produce(more)
    job.driver()
    newest = job.wait_committed()
    assert job.state(newest) == counting.expected(produced)


@pytest.mark.slow
def test_partitions_far_apart_in_event_time_make_nothing_late(job: Flow) -> None:
    """A backlog, read from a cold start: one partition is soon at hour twenty, the other long at hour zero."""
    text = job.job_file.read_text(encoding="utf-8")
    job.job_file.write_text(text.replace("max_events_per_epoch: 100000", "max_events_per_epoch: 200"))
    hours = {0: at(0, 100) + at(20, 900, seed=1), 1: at(0, 900, seed=2) + at(20, 100, seed=3)}
    producer, encode = Producer(job.cluster.librdkafka()), Codec(job.job.event_schema).encode
    for partition, events in hours.items():
        for event in events:
            producer.produce(job.source, encode(event), partition=partition)
    assert producer.flush(30) == 0
    job.signal()
    job.driver()
    newest = job.wait_committed()
    stream = [one for one, _ in job.milestones()]
    assert len(stream) > 5
    assert max(one.skew_ms for one in stream) > 19 * HOUR_MS, "they were far apart"
    assert sum(one.late for one in stream) == 0
    assert job.state(newest) == counting.expected([*hours[0], *hours[1]])


@pytest.mark.slow
def test_a_cleaning_is_killed_at_any_moment(job: Flow) -> None:
    """A dozen kills while hours pass: what is counted and what is listed add up to what was produced."""
    job.signal()
    produced: list[dict[str, Any]] = []
    driver = job.driver()
    for hour in range(0, 24, 2):
        produced += (more := at(hour, 200, seed=hour))
        job.produce(more)
        produced += (late := at(max(0, hour - 1), 20, seed=100 + hour))
        job.produce(late)
        job.wait_committed()
        time.sleep(hour % 7 / 4)
        driver.kill()
        driver.wait()
        driver = job.driver()
    newest = job.wait_committed()
    wait_until(lambda: cleanings(job) > 2, "cleanings between the kills", 60)
    listed = late_pairs(job.cluster, job.job.name)
    assert not listed.problems
    gone = {(one.key, one.event_time_ms) for one in listed.entries}
    assert len(listed.entries) == sum(one.late for one, _ in job.milestones())
    counted = sum(row["ticks"] for row in job.state(newest).values())
    assert counted == len(produced) - len(listed.entries), gone
