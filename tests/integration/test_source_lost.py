"""A real driver whose source loses events meanwhile: it counts what the log holds, or names the topic and ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from cutwater.adapters.kafka import admin
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.records import Barrier
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from support.events import counting
from support.harness import Flow, flow, session_pids, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]
DRIVER = "cutwater_spark.driver"
PER_EPOCH = 500
EVENTS = 8_000
KEPT = 5_000
"""What the source keeps: more than the driver has read when it is held, and less than its consumers have."""


def epochs_written(job: Flow) -> int:
    with closing(Tail(job.cluster, topics.barriers(job.job.name))) as tail:
        found: list[Any] = []
        while new := list(tail.poll()):
            found += new
    return sum(isinstance(one, Barrier) for one in found)


@contextmanager
def held(driver: Popen[bytes]) -> Iterator[None]:
    """The driver and its JVM do nothing meanwhile; they keep what they have read."""
    pids = session_pids(driver.pid)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def lose_tail(partition: Path, kept: int) -> int:
    """Cut a partition's log of a broker that is down, behind the batch that holds `kept`. Returns the new end."""
    (segment,) = partition.glob("*.log")
    records, at, end = segment.read_bytes(), 0, 0
    while at < len(records) and end < kept:
        first = int.from_bytes(records[at : at + 8], "big")
        end = first + int.from_bytes(records[at + 23 : at + 27], "big") + 1
        at += 12 + int.from_bytes(records[at + 8 : at + 12], "big")
    os.truncate(segment, at)
    for other in (*partition.glob("*.index"), *partition.glob("*.timeindex"), *partition.glob("*.snapshot")):
        other.unlink()
    return end


def produced(job: Flow, count: int, seed: int) -> list[dict[str, Any]]:
    """Events in batches: a log is cut between two of them."""
    made = counting.events(count, seed)
    for first in range(0, count, 1_000):
        job.produce(made[first : first + 1_000])
    return made


def test_events_that_were_fetched_before_a_loss_are_not_counted(
    tmp_path: Path, kafka_jars: list[Path], unique: Callable[[str], str]
) -> None:
    """Its consumers hold events that the source has lost since. The query starts again, with others."""
    broker = Broker(tmp_path / "broker", find_java(), kafka_jars)
    child = broker.child()
    child.start()
    try:
        wait_until(broker.ready, "the broker")
        text = counting.job_text(unique("count"), PER_EPOCH, partitions=1)
        with flow(broker.cluster, text, tmp_path, counting.SCHEMA) as job:
            before = produced(job, EVENTS, 7)
            driver = job.driver(CUTWATER_TRIGGER_MS="2000")
            wait_until(lambda: epochs_written(job), "the first epoch")
            with held(driver):
                assert epochs_written(job) * PER_EPOCH < KEPT - PER_EPOCH, "it must not have read all that is kept"
                child.kill()
                end = lose_tail(broker.data_dir / "log" / f"{job.source}-0", KEPT)
                assert KEPT <= end < EVENTS
                child.start()
                wait_until(broker.ready, "the broker again")
                after = produced(job, EVENTS - end + PER_EPOCH, 8)
            job.signal()
            milestone = job.wait_committed()
            assert milestone.attempt == 1, "the driver has gone on"
            assert job.state(milestone) == counting.expected([*before[:end], *after])
            assert "the source has new leaders" in job.log(DRIVER).read_text()
    finally:
        child.kill()


def test_a_source_that_is_made_anew_ends_the_driver(
    broker: Any, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """As many events and more stand in it again: none of them is counted, and the topic is named."""
    text = counting.job_text(unique("count"), PER_EPOCH, partitions=1)
    with flow(broker.cluster, text, tmp_path, counting.SCHEMA) as job:
        before = produced(job, EVENTS, 7)
        job.signal()
        driver = job.driver(CUTWATER_TRIGGER_MS="2000")
        wait_until(job.milestones, "the first milestone")
        with held(driver):
            admin.delete_topics(job.cluster, [job.source])
            admin.create_topics(job.cluster, [topics.events(job.source, 1)])
            produced(job, EVENTS + 1_000, 8)
        assert driver.wait(120) not in (0, None)
        assert f"{job.source} was deleted and recreated" in job.log(DRIVER).read_text()
        newest, _ = job.milestones()[-1]
        read = newest.source_cut.offset(TopicPartition(job.source, 0))
        assert read < EVENTS, "it must come in the middle of the backlog"
        assert job.state(newest) == counting.expected(before[:read])
