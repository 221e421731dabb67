"""`EventProducer` on a real broker: what it refuses, what it promises, and that its promises hold in a crash."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.client import AsyncEventProducer, EventProducer
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.processes.restart_policy import NEVER_RESTART
from cutwater.local.processes.supervisor import Supervisor
from support.events import counting
from support.views.changelogs import until

EVENT = counting.events(1)[0]


def numbered(number: int) -> dict[str, Any]:
    """An event that is told from all others by its value."""
    return {"key": f"k{number % 30}", "at": counting.START_MS, "value": number}


def make_job(folder: Path, name: str, more: str = "") -> Job:
    (folder / "event.avsc").write_text(counting.SCHEMA)
    (folder / "job.yaml").write_text(counting.job_text(name) + more)
    return load_job(folder / "job.yaml")


@pytest.fixture
def job(broker: Any, unique: Any, tmp_path: Path) -> Job:
    made = make_job(tmp_path, unique("ticks"))
    ensure_topics(broker.cluster, [topics.events(made.topic, 2)])
    return made


def found(cluster: Cluster, job: Job) -> list[tuple[str, dict[str, Any]]]:
    """Every (key, event) on the topic."""
    codec, consumer, events = Codec(job.event_schema), make_consumer(cluster), []
    try:
        for partition in range(2):
            low, high = bounds(consumer, job.topic, partition)
            for message in read_range(consumer, job.topic, partition, low, high) if low < high else ():
                events.append((message.key().decode(), codec.decode(message.value())))
    finally:
        consumer.close()
    return events


def values(cluster: Cluster, job: Job) -> Counter[int]:
    return Counter(event["value"] for _, event in found(cluster, job))


def test_events_are_encoded_and_keyed_as_the_job_says(broker: Any, job: Job) -> None:
    """What is read back is what was sent, under the job's key; the block ends with all acknowledged."""
    with EventProducer(job, broker.cluster) as producer:
        for number in range(500):
            producer.send(numbered(number))
    assert producer.acknowledged == 500
    events = found(broker.cluster, job)
    assert all(key == event["key"] for key, event in events)
    assert sorted(event["value"] for _, event in events) == list(range(500))


@pytest.mark.variations
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"value": "many"}, "value"),
        ({"value": 2**40}, "value"),
        ({"at": None}, "at"),
        ({"key": None}, "key"),
        ({"vaule": 1}, "does not have: vaule"),
        ({"key": "k" * 2_000}, "max_event_bytes"),
    ],
    ids=["wrong type", "beyond 32 bits", "no event time", "no key", "misspelt field", "too large"],
)
def test_a_bad_event_is_refused_before_it_is_sent(
    broker: Any, unique: Any, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    """The error names what is wrong; the events before and after it are delivered, it is not."""
    job = make_job(tmp_path, unique("ticks"), "max_event_bytes: 1000\n")
    ensure_topics(broker.cluster, [topics.events(job.topic, 2)])
    with EventProducer(job, broker.cluster) as producer:
        producer.send(numbered(1))
        with pytest.raises(UsageError, match=says):
            producer.send({**EVENT, **change})
        producer.send(numbered(2))
    assert values(broker.cluster, job) == {1: 1, 2: 1}


def test_a_tiny_queue_bounds_what_is_on_its_way(broker: Any, job: Job) -> None:
    """`send` waits for acknowledgements: never more than the queue holds are open, and all arrive."""
    most = 0
    with EventProducer(job, broker.cluster, queue_max=5) as producer:
        for number in range(300):
            producer.send(numbered(number))
            most = max(most, number + 1 - producer.acknowledged)
    assert 0 < most <= 5
    assert values(broker.cluster, job) == dict.fromkeys(range(300), 1)


def test_a_topic_that_is_not_there_is_named_at_once(broker: Any, unique: Any, tmp_path: Path) -> None:
    """Nobody learns it from a time-out."""
    with pytest.raises(UsageError, match="does not exist"):
        EventProducer(make_job(tmp_path, unique("nowhere")), broker.cluster)


def test_a_closed_producer_takes_nothing(broker: Any, job: Job) -> None:
    """An event after the end would never be flushed."""
    with EventProducer(job, broker.cluster) as producer:
        pass
    with pytest.raises(UsageError, match="closed"):
        producer.send(EVENT)


def test_async_sends_end_with_their_acknowledgement(broker: Any, job: Job) -> None:
    """Each `await send` is one event that the broker has; a bad one fails its own await alone."""

    async def run() -> list[Any]:
        async with AsyncEventProducer(job, broker.cluster, queue_max=7) as producer:
            await producer.send(numbered(0))
            assert values(broker.cluster, job) == {0: 1}
            bad = producer.send({**EVENT, "value": "many"})
            return await asyncio.gather(
                *map(producer.send, map(numbered, range(1, 400))), bad, return_exceptions=True
            )

    *good, bad = asyncio.run(run())
    assert good == [None] * 399
    assert isinstance(bad, UsageError)
    assert values(broker.cluster, job) == dict.fromkeys(range(400), 1)


class OwnBroker:
    """A broker of this test's own, to be frozen, killed and started again."""

    def __init__(self, folder: Path, kafka_jars: list[Path]) -> None:
        self.broker = Broker(folder, find_java(), kafka_jars)
        self.cluster = self.broker.cluster
        self._supervised = self.broker.supervised(NEVER_RESTART)

    @contextmanager
    def running(self) -> Iterator[None]:
        with Supervisor([self._supervised]) as supervisor:
            supervisor.start(threading.Event())
            yield

    def signal(self, number: signal.Signals) -> None:
        pid = self._supervised.child.pid
        assert pid is not None
        os.kill(pid, number)
        if number is signal.SIGSTOP:  # on a busy machine it answers for a while yet
            until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "the broker to stand still")


def send_until_error(producer: EventProducer, first: int) -> tuple[int, Exception | None]:
    """How many events were taken, a hundred a second, and what ended it; None for nothing within 20 s."""
    for taken in range(2_000):
        try:
            producer.send(numbered(first + taken))
        except UnavailableError as error:
            return taken, error
        time.sleep(0.01)
    return 2_000, None


@pytest.fixture
def own(tmp_path: Path, kafka_jars: list[Path]) -> OwnBroker:
    return OwnBroker(tmp_path / "own", kafka_jars)


@pytest.mark.slow
def test_a_broker_that_answers_no_more_blocks_for_a_bounded_time(own: OwnBroker, tmp_path: Path) -> None:
    """With the broker frozen `send` takes what the queue holds, then waits, then raises."""
    job = make_job(tmp_path, "frozen")
    with own.running():
        ensure_topics(own.cluster, [topics.events(job.topic, 2)])
        producer = EventProducer(job, own.cluster, queue_max=10, wait_s=3)
        producer.send(numbered(0))
        producer.flush()
        own.signal(signal.SIGSTOP)
        try:
            taken, error = send_until_error(producer, 1)
        finally:
            own.signal(signal.SIGCONT)
    assert isinstance(error, UnavailableError)
    assert taken <= 10, "no more than the queue holds"


@pytest.mark.slow
def test_a_killed_broker_surfaces(own: OwnBroker, tmp_path: Path) -> None:
    """kill -9: the error comes at the next call, at `flush` and at the end of the block."""
    job = make_job(tmp_path, "killed")
    with own.running():
        ensure_topics(own.cluster, [topics.events(job.topic, 2)])
        one, other = EventProducer(job, own.cluster, wait_s=3), EventProducer(job, own.cluster, wait_s=3)
        for number in range(200):
            one.send(numbered(number))
        one.flush()
        assert one.acknowledged == 200
        own.signal(signal.SIGKILL)
        with pytest.raises(UnavailableError), other:
            other.send(numbered(200))
        _, error = send_until_error(one, 201)
        assert isinstance(error, UnavailableError)
        with pytest.raises(UnavailableError):  # still so: nobody has flushed
            one.send(numbered(0))
        with pytest.raises(UnavailableError):
            one.flush()
    with own.running():
        there = values(own.cluster, job)
    assert {number for number in range(200) if there[number] != 1} == set()


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_broker_is_killed_and_comes_back(
    own: OwnBroker, tmp_path: Path
) -> None:
    """Over a kill -9 and a restart each acknowledged event is on the topic once: retries repeat nothing."""
    job = make_job(tmp_path, "back")
    known: set[int] = set()
    failed: set[int] = set()

    async def send(producer: AsyncEventProducer, number: int) -> None:
        try:
            await producer.send(numbered(number))
            known.add(number)
        except UnavailableError:
            failed.add(number)

    async def run() -> None:
        async with AsyncEventProducer(job, own.cluster, queue_max=50) as producer, asyncio.TaskGroup() as sends:
            for number in range(2_000):
                sends.create_task(send(producer, number))
            while len(known) < 500:
                await asyncio.sleep(0.001)
            own.signal(signal.SIGKILL)
            killed_at = len(known)
            await asyncio.to_thread(own._supervised.child.stop, 20)
            assert killed_at < 2_000, "the kill must come in the middle"
            await asyncio.to_thread(own._supervised.child.start)

    with own.running():
        ensure_topics(own.cluster, [topics.events(job.topic, 2)])
        asyncio.run(run())
        there = values(own.cluster, job)
    assert {number: there[number] for number in known} == dict.fromkeys(known, 1)
    assert max(there.values()) == 1
    assert len(known) + len(failed) == 2_000


@pytest.mark.parametrize("kind", [EventProducer, AsyncEventProducer])
@pytest.mark.parametrize("bound", [{"queue_max": 0}, {"queue_max": -1}, {"wait_s": 0}])
def test_bounds_that_are_none_are_refused_when_it_is_made(kind: Any, bound: Any) -> None:
    """Either producer names both, before it reads a job file or asks a broker."""
    with pytest.raises(UsageError, match=r"both must be above 0"):
        kind("no such file", **bound)
