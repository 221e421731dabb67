"""A producer that brokers have lost the count of, as after an unclean election: said, and over with one flush."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from cutwater.adapters.events.event_producer import Encoded, EventWriter
from cutwater.adapters.job_files.loader import load_job
from cutwater.client import AsyncEventProducer
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from support.events import counting
from support.kafka.mockbrokers import PRODUCE, MockBroker, mock_broker

EVENTS = counting.events(5)
LOST_COUNT = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    (tmp_path / "job.yaml").write_text(counting.job_text("ticks"))
    return load_job(tmp_path / "job.yaml")


@pytest.fixture
def brokers(job: Job) -> Iterator[MockBroker]:
    with mock_broker() as one:
        one.create(job.topic)
        yield one


@pytest.mark.parametrize("code", [LOST_COUNT, KafkaError.INVALID_PRODUCER_EPOCH], ids=["fatal", "passing"])
def test_events_on_their_way_are_told_and_the_writer_goes_on(brokers: MockBroker, job: Job, code: int) -> None:
    """Without that each call would fail from then on, with advice to look at brokers that run."""
    writer = EventWriter(brokers.cluster, job, wait_s=20)
    assert writer.write_all(EVENTS) == len(EVENTS)
    brokers.answer(PRODUCE, code)
    with pytest.raises(UnavailableError, match="may be there or not: send them again"):
        writer.write_all(EVENTS)
    assert writer.write_all(EVENTS) == len(EVENTS)
    assert writer.acknowledged == 2 * len(EVENTS)


def test_until_a_flush_has_said_it_nothing_is_taken(brokers: MockBroker, job: Job) -> None:
    """What is sent behind events that are lost would be there without them."""
    writer = EventWriter(brokers.cluster, job, wait_s=20)
    writer.write_all(EVENTS)
    brokers.answer(PRODUCE, LOST_COUNT)
    writer.send(EVENTS[0])
    writer.poll(2.0)
    writer.poll(2.0)
    with pytest.raises(UnavailableError, match="no longer agree"):
        writer.send(EVENTS[1])
    with pytest.raises(UnavailableError, match="no longer agree"):
        writer.flush()
    writer.send(EVENTS[1])
    writer.flush()


def test_async_sends_end_each_with_its_own_failure(brokers: MockBroker, job: Job) -> None:
    """And those that come later are delivered: the thread that hears of them goes on."""

    async def run() -> list[Any]:
        async with AsyncEventProducer(job, brokers.cluster, wait_s=20) as producer:
            await producer.send(EVENTS[0])
            brokers.answer(PRODUCE, LOST_COUNT)
            failed = await asyncio.gather(*map(producer.send, EVENTS), return_exceptions=True)
            await producer.send(EVENTS[0])
            return failed

    failed = asyncio.run(asyncio.wait_for(run(), 60))
    assert {type(one) for one in failed} == {UnavailableError}


def test_an_event_may_be_as_large_as_job_and_topic_allow(brokers: MockBroker, job: Job) -> None:
    """The client's own bound of 1 MB was called the topic's."""
    writer = EventWriter(brokers.cluster, job, wait_s=20)
    writer.send_encoded(Encoded(b"k", bytes(2_000_000)))
    writer.flush()
    assert writer.acknowledged == 1
