"""`AsyncEventProducer` around the ends of its block: no `send` waits for an acknowledgement that nobody hears."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.job_files.loader import load_job
from cutwater.client import AsyncEventProducer, EventProducer
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.job import Job
from support.events import counting
from support.kafka.mockbrokers import PRODUCE, MockBroker, mock_broker

EVENT = counting.events(1)[0]
ANSWERED_S = 30
ATTACHED = """
job: mine
attached: {key: k, window: window, schema: row.avsc}
window: {kind: tumbling, size: 1h}
lateness: 1m
retention: 1d
"""
NOT_THERE = 3
"""Kafka's error of a partition whose leader is elsewhere: a client tries again."""


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


def run(of: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(of, ANSWERED_S))


def test_outside_of_its_block_it_takes_nothing(brokers: MockBroker, job: Job) -> None:
    """Before it an attribute was missing, and after it the call never returned."""

    async def outside() -> None:
        producer = AsyncEventProducer(job, brokers.cluster)
        with pytest.raises(UsageError, match="async with"):
            await producer.send(EVENT)
        async with producer:
            await producer.send(EVENT)
        with pytest.raises(UsageError, match="async with"):
            await producer.send(EVENT)

    run(outside())


def test_a_second_block_works_as_the_first(brokers: MockBroker, job: Job) -> None:
    async def twice() -> None:
        producer = AsyncEventProducer(job, brokers.cluster)
        for _ in range(2):
            async with producer:
                await producer.send(EVENT)

    run(twice())


def test_a_send_that_begins_as_the_block_ends_says_so(brokers: MockBroker, job: Job) -> None:
    """A task of it runs only once the block waits for the others."""

    async def late() -> list[Any]:
        async with AsyncEventProducer(job, brokers.cluster, queue_max=1) as producer:
            sends = [asyncio.create_task(producer.send(EVENT)) for _ in range(3)]
            await asyncio.sleep(0)  # the first one has the room, the others wait for it
            sends.append(asyncio.create_task(producer.send(EVENT)))
        return await asyncio.gather(*sends, return_exceptions=True)

    first, *others = run(late())
    assert first is None
    assert [type(one) for one in others] == [UsageError] * 3


def test_a_block_whose_end_is_cancelled_leaves_no_send_behind(brokers: MockBroker, job: Job) -> None:
    async def cancelled() -> list[Any]:
        brokers.answer(PRODUCE, *[NOT_THERE] * 1_000)
        sends: list[asyncio.Task[None]] = []

        async def block() -> None:
            async with AsyncEventProducer(job, brokers.cluster, wait_s=2) as producer:
                sends.append(asyncio.create_task(producer.send(EVENT)))
                await asyncio.sleep(0.1)

        whole = asyncio.create_task(block())
        while not sends:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        whole.cancel()
        return await asyncio.gather(whole, *sends, return_exceptions=True)

    whole, send = run(cancelled())
    assert isinstance(whole, asyncio.CancelledError)
    assert isinstance(send, UnavailableError)
    assert "closed before" in str(send)


def test_a_job_whose_events_are_another_program_s_says_so(brokers: MockBroker, tmp_path: Path) -> None:
    (tmp_path / "row.avsc").write_text(
        '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
    )
    (tmp_path / "attached.yaml").write_text(ATTACHED)
    with pytest.raises(UsageError, match="attached to a query of your own: produce to the topics that it reads"):
        EventProducer(tmp_path / "attached.yaml", brokers.cluster)
