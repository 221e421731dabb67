"""commit-signal as a real process on a real broker: restarts, fencing, aborted input, no dependence on hints."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Committed, Heartbeat, Milestone, Signal, Start
from cutwater.local.machine.ports import free_ports
from support.events import counting
from support.harness import GENERATION, Flow, flow, scraped, wait_until

MODULE = "cutwater.commit_signal"


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    with flow(broker.cluster, counting.job_text(unique("signal")), tmp_path, counting.SCHEMA) as made:
        yield made


class Driver:
    """Writes what a driver would write, under its fenced id."""

    def __init__(self, job: Flow, attempt: int = 1, generation: Generation = GENERATION) -> None:
        self._job = job
        self._attempt = attempt
        self._generation = generation
        self._writer = TransactionalWriter(job.cluster, topics.driver_id(job.job.name, generation))
        self._writer.initialise()
        self.tell(Start(job.job.name, generation, attempt, 1))

    def tell(self, signal: Signal) -> None:
        self._writer.write(topics.barriers(self._job.job.name), [protocol_records.encode(signal)])

    def barrier(self, epoch: int, digest: int = 5) -> Barrier:
        name = self._job.job.name
        changelog = topics.changelog(name, self._generation)
        barrier = Barrier(
            job=name,
            generation=self._generation,
            attempt=self._attempt,
            epoch=epoch,
            source_cut=Cut.of_topic(self._job.job.topic, [epoch * 10, epoch * 10]),
            changelog_cut=Cut.of_topic(changelog, [epoch, epoch]),
            watermark_ms=epoch,
            horizon_ms=0,
            rows=2,
            digest=digest,
            events=20,
            rejected=0,
            late=0,
            skew_ms=0,
            schema_fingerprint="ab",
            definition="cd",
            epoch_started_ms=1,
            written_ms=2,
        )
        self.tell(barrier)
        return barrier

    def committed(self, epoch: int) -> None:
        self.tell(Committed(self._job.job.name, self._generation, self._attempt, epoch, 3))


def epochs(job: Flow) -> list[int]:
    return [one.epoch for one, _ in job.milestones()]


def kill(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, 9)
    assert process.wait(30) == -9


def test_restarts_leave_neither_gap_nor_repeat(job: Flow) -> None:
    """kill -9 after each of several milestones, hints missing for some: sequences stay contiguous and chained."""
    driver = Driver(job)
    expected: list[int] = []
    for epoch in range(0, 9, 3):
        signaller = job.signal()
        driver.barrier(epoch)
        driver.committed(epoch)
        driver.barrier(epoch + 1)  # no hint: the next barrier commits it
        driver.barrier(epoch + 2)
        driver.committed(epoch + 2)
        expected += [epoch, epoch + 1, epoch + 2]
        wait_until(lambda: len(epochs(job)) >= len(expected), "the milestones")  # noqa: B023
        kill(signaller)
        assert epochs(job) == expected
    job.signal()
    driver.barrier(9)
    driver.committed(9)
    wait_until(lambda: len(epochs(job)) == 10, "the tenth milestone")
    assert epochs(job) == list(range(10))
    assert list(find_chain_faults(job.milestones())) == []


@pytest.mark.slow
def test_a_restart_reads_the_open_barrier_again(job: Flow) -> None:
    """A barrier that was read but not committed before kill -9 is committed after the restart."""
    driver = Driver(job)
    first = job.signal()
    driver.barrier(0)
    driver.barrier(1)
    wait_until(lambda: epochs(job) == [0], "the first milestone")
    kill(first)
    driver.committed(1)
    job.signal()
    wait_until(lambda: epochs(job) == [0, 1], "the second milestone")


@pytest.mark.slow
def test_the_newest_attempt_of_an_epoch_is_committed(job: Flow) -> None:
    """A barrier that a later attempt wrote again is superseded: the milestone carries the later digest."""
    Driver(job).barrier(0, digest=1)
    again = Driver(job, attempt=2)
    again.barrier(0, digest=2)
    again.committed(0)
    job.signal()
    wait_until(lambda: epochs(job) == [0], "the milestone")
    milestone = job.milestones()[0][0]
    assert (milestone.attempt, milestone.digest) == (2, 2)


@pytest.mark.slow
def test_an_aborted_barrier_is_never_read(job: Flow) -> None:
    """A barrier in a transaction that was never committed does not become a milestone (aborted read)."""
    producer = Producer(
        {
            **job.cluster.librdkafka(),
            "transactional.id": topics.driver_id(job.job.name, GENERATION),
            "transaction.timeout.ms": 60_000,
        }
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    dead = Driver.__new__(Driver)
    dead._job, dead._attempt, dead._generation = job, 1, GENERATION
    dead.tell = lambda one: producer.produce(topics.barriers(job.job.name), protocol_records.encode(one))  # type: ignore[method-assign]
    dead.barrier(0, digest=666)
    producer.flush(20)
    driver = Driver(job, attempt=2)  # takes over: the open transaction is aborted
    driver.barrier(0, digest=7)
    driver.committed(0)
    job.signal()
    wait_until(lambda: epochs(job) == [0], "the milestone")
    assert job.milestones()[0][0].digest == 7


@pytest.mark.slow
def test_of_two_signallers_the_older_one_leaves(job: Flow) -> None:
    """A second commit-signal fences the first, which ends with the exit code of a fenced owner; no repeat."""
    driver = Driver(job)
    older = job.signal()
    driver.barrier(0)
    driver.committed(0)
    wait_until(lambda: epochs(job) == [0], "the first milestone")
    job.signal()
    wait_until(lambda: job.log(MODULE).read_text().count("ready") == 2, "the second signaller")
    driver.barrier(1)
    driver.committed(1)
    assert older.wait(60) == 6
    wait_until(lambda: epochs(job) == [0, 1], "the second milestone")
    assert list(find_chain_faults(job.milestones())) == []


@pytest.mark.slow
def test_another_generation_leaves_without_fencing(job: Flow) -> None:
    """A signaller of another region stops, and so does one of no claim; the promoted one's lives on."""
    driver = Driver(job)
    living = job.signal()
    driver.barrier(0)
    driver.committed(0)
    wait_until(lambda: epochs(job) == [0], "the first milestone")
    stranger = job.start(MODULE, CUTWATER_REGION="mars")
    assert stranger.wait(60) == 2
    assert job.start(MODULE, CUTWATER_GENERATION="g2-local-0badcafe").wait(60) == 2
    driver.barrier(1)
    driver.committed(1)
    wait_until(lambda: epochs(job) == [0, 1], "the second milestone")
    assert living.poll() is None


@pytest.mark.slow
def test_a_gap_in_the_epochs_stops_it(job: Flow) -> None:
    """A barrier that skips an epoch is refused: exit code 5, a message with what to do, and no milestone."""
    driver = Driver(job)
    signaller = job.signal()
    driver.barrier(0)
    driver.barrier(2)
    assert signaller.wait(60) == 5
    assert "start a new generation" in job.log(MODULE).read_text()
    assert epochs(job) == []


@pytest.mark.slow
def test_an_epoch_told_differently_stops_it(job: Flow) -> None:
    """A committed epoch that a later attempt tells with another digest is a divergence: exit code 7."""
    driver = Driver(job)
    signaller = job.signal()
    driver.barrier(0, digest=1)
    driver.committed(0)
    wait_until(lambda: epochs(job) == [0], "the milestone")
    Driver(job, attempt=2).barrier(0, digest=2)
    assert signaller.wait(60) == 7
    assert epochs(job) == [0]


@pytest.mark.slow
def test_heartbeats_are_forwarded_once_and_without_sequence(job: Flow) -> None:
    """An idle job's heartbeat reaches the commit stream once, even over a restart of commit-signal."""
    driver = Driver(job)
    first = job.signal()
    driver.barrier(0)
    driver.committed(0)
    driver.tell(Heartbeat(job.job.name, GENERATION, 1, 0, 1_000))

    def records() -> list[Any]:
        tail = Tail(job.cluster, topics.milestones(job.job.name))
        found: list[Any] = []
        while new := list(tail.poll()):
            found += new
        tail.close()
        return found

    wait_until(lambda: len(records()) == 2, "a milestone and a heartbeat")
    kill(first)
    job.signal()
    driver.tell(Heartbeat(job.job.name, GENERATION, 1, 0, 2_000))
    wait_until(lambda: len(records()) == 3, "the second heartbeat")
    assert [type(one) for one in records()] == [Milestone, Heartbeat, Heartbeat]
    assert [one.at_ms for one in records()[1:]] == [1_000, 2_000]


@pytest.mark.slow
def test_its_metrics_are_the_streams(job: Flow) -> None:
    """What it counts is what stands on the commit stream, and an epoch that waits shows."""
    port = free_ports(1)[0]
    driver = Driver(job)
    job.start(MODULE, CUTWATER_SIGNAL_PORT=str(port))
    for epoch in (0, 1):
        driver.barrier(epoch)
        driver.committed(epoch)
    driver.barrier(2)
    wait_until(lambda: epochs(job) == [0, 1], "two milestones")
    figures = wait_until(lambda: (found := scraped(port))["cutwater_signal_prepared"] and found, "a waiting epoch")
    assert figures["cutwater_signal_milestones_total"] == figures["cutwater_signal_delay_seconds_count"] == 2
    assert figures["cutwater_signal_sequence"] == 2
    assert figures["cutwater_signal_attempt"] == 1


def test_a_port_that_is_taken_is_named(job: Flow) -> None:
    """Exit code 3, with the setting to change."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert job.start(MODULE, CUTWATER_SIGNAL_PORT=str(port)).wait(60) == 3
    assert f"cannot listen on 127.0.0.1:{port}" in job.log(MODULE).read_text()
    assert "set CUTWATER_SIGNAL_PORT" in job.log(MODULE).read_text()
