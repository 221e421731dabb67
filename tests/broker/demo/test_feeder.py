"""The flights of the demonstration of two regions: each is acknowledged once, whatever dies on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.two_regions.feeder import Feeder

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.processes.restart_policy import NEVER_RESTART
from cutwater.local.processes.supervisor import Supervised, Supervisor
from support.events import counting

MANY = 900
PER_SECOND = 300


@pytest.fixture
def job(unique: Callable[[str], str], tmp_path: Path) -> Job:
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    (tmp_path / "job.yaml").write_text(counting.job_text(unique("fed")))
    return load_job(tmp_path / "job.yaml")


@pytest.fixture
def mortal(tmp_path: Path, kafka_jars: list[Path]) -> Iterator[tuple[Cluster, Supervised]]:
    """A broker that a test may kill."""
    embedded = Broker(tmp_path / "mortal", find_java(), kafka_jars)
    member = embedded.supervised(NEVER_RESTART)
    with Supervisor([member]) as supervisor:
        supervisor.start(threading.Event())
        yield embedded.cluster, member


def events() -> list[dict[str, Any]]:
    return [{"key": f"k{number % 7}", "at": counting.START_MS, "value": number} for number in range(MANY)]


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def values(cluster: Cluster, job: Job) -> list[int]:
    """What stands on the source, in the order of each partition."""
    codec, consumer, found = Codec(job.event_schema), make_consumer(cluster), []
    try:
        for partition in range(2):
            low, high = bounds(consumer, job.topic, partition)
            for message in read_range(consumer, job.topic, partition, low, high) if low < high else ():
                found.append(codec.decode(message.value())["value"])
    finally:
        consumer.close()
    return found


@pytest.mark.slow
def test_what_a_dead_region_did_not_acknowledge_goes_to_the_next_one(
    broker: Any, mortal: tuple[Cluster, Supervised], job: Job
) -> None:
    """kill -9 of a broker with events on the way: both regions together have acknowledged each event once."""
    cluster, member = mortal
    for one in (cluster, broker.cluster):
        ensure_topics(one, [topics.events(job.topic, 2)])
    with Feeder(job, events(), PER_SECOND) as feeder:
        feeder.into("a", cluster)
        until(lambda: feeder.acknowledged > 100)
        member.child.kill()
        until(lambda: bool(feeder.refused["a"]) and feeder.idle)
        before = list(feeder.delivered["a"])
        feeder.into("b", broker.cluster)
        until(lambda: feeder.done)
        feeder.raise_error()
    assert 100 < len(before) < MANY, "the kill must come in the middle"
    assert feeder.refused["a"], "some must have been on the way"
    assert before == feeder.delivered["a"], "a dead region acknowledges nothing"
    assert sorted(before + feeder.delivered["b"]) == list(range(MANY))
    assert sorted(values(broker.cluster, job)) == sorted(feeder.delivered["b"])


def test_no_event_is_sent_before_it_may_be(broker: Any, job: Job) -> None:
    """`up_to` holds the flights, and what was held is not made up for in one burst."""
    ensure_topics(broker.cluster, [topics.events(job.topic, 2)])
    with Feeder(job, events(), 10 * PER_SECOND) as feeder:
        feeder.up_to(50)
        feeder.into("a", broker.cluster)
        until(lambda: feeder.waiting)
        assert sorted(values(broker.cluster, job)) == list(range(50))
        assert not feeder.done
        feeder.up_to(MANY)
        until(lambda: feeder.done)
    assert sorted(values(broker.cluster, job)) == list(range(MANY))
