"""`late.amend_for` in a driver: no watermark in Spark's plan, a floor that cleanings raise, events that amend."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.topics.recovery_log import history
from cutwater.adapters.topics.rejected_events import late_pairs
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Barrier
from support.cli.commandline import Cli
from support.events import counting
from support.harness import Flow, flow, wait_until
from support.lineage import read_all

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_spark")]
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
def test_a_restart_may_read_the_source_by_other_numbers_of_tasks(job: Flow) -> None:
    """Down to an epoch of one task, which a killed epoch of several becomes in the middle, and back."""
    text = job.job_file.read_text(encoding="utf-8")
    job.job_file.write_text(text.replace("max_events_per_epoch: 100000", "max_events_per_epoch: 400"))
    job.signal()
    produced: list[dict[str, Any]] = []
    for step, tasks in enumerate(("1", "0", "2", "1", "1000")):
        job.settings["CUTWATER_SOURCE_TASKS"] = tasks
        driver = job.driver()
        produced += (more := at(step, 900, seed=step))
        job.produce(more)
        time.sleep(step / 5)
        driver.kill()
        driver.wait()
    job.driver()
    assert job.state(job.wait_committed()) == counting.expected(produced)
    assert cleanings(job) > 0, "whose plan has a stage more"


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


def committed(job: Flow, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events, once a milestone has read them."""
    job.produce(events)
    job.wait_committed()
    return events


def late_behind_a_cleaning(job: Flow, hour: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Events of an hour, and behind a cleaning some that are late. The state has windows of both."""
    done = cleanings(job)
    produced = [one for seed in range(hour, hour + 3) for one in committed(job, at(hour, seed=seed))]
    wait_until(lambda: cleanings(job) > done, "a cleaning", 60)
    return produced, committed(job, at(hour / 60, 40, seed=hour + 3))


@pytest.mark.slow
def test_late_events_count_in_a_generation_from_a_milestone_behind_their_windows(job: Flow) -> None:
    """Cleanings have evicted the windows, and would be due again between the two batches of late events."""
    job.signal()
    driver = job.driver()
    produced = committed(job, at(0))
    late: list[dict[str, Any]] = []
    for hour in (6, 12):
        on_time, too_late = late_behind_a_cleaning(job, hour)
        produced += on_time
        late += too_late
    newest = job.wait_committed()
    assert len(late_pairs(job.cluster, job.job.name).entries) == len(late) == 80
    driver.kill()
    driver.wait()

    text = job.job_file.read_text(encoding="utf-8")
    job.job_file.write_text(text.replace("max_events_per_epoch: 100000", "max_events_per_epoch: 150"))
    claimed = Cli(job.folder).json(
        "late", "replay", str(job.job_file), "--bootstrap-servers", job.cluster.bootstrap
    )
    parent = next(one for one, _ in job.milestones() if str(one.token) == claimed["parent"])
    assert (claimed["late"]["counted"], claimed["late"]["left_out"]) == (len(late), [])
    assert parent.floor_ms > max(one["at"] for one in late[:40]), "their windows were closed there"
    me = {"CUTWATER_GENERATION": str(claimed["generation"])}
    driver = job.driver(**me)
    wait_until(lambda: len(written(job, claimed["generation"])) > 2, "some epochs of it", 120)
    driver.kill()
    driver.wait()
    job.driver(**me)
    again = wait_until(
        lambda: (
            (found := written(job, claimed["generation"])) and found[-1].source_cut == newest.source_cut and found
        ),
        "it has caught up",
        120,
    )
    assert len(again) > 4, "the test must make several epochs"
    assert sum(one.late for one in again) == 0
    assert {one.floor_ms for one in again} == {claimed["late"]["floor_ms"]}
    assert job.state(again[-1]) == counting.expected([*produced, *late])


def written(job: Flow, generation: str) -> list[Barrier]:
    """The barriers of a generation, by epoch."""
    told = (protocol_records.decode(value) for _, value in read_all(job, topics.barriers(job.job.name)))
    found = {one.epoch: one for one in told if isinstance(one, Barrier) and str(one.generation) == generation}
    return [found[epoch] for epoch in sorted(found)]
