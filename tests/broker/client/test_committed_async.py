"""`committed_async()`: the same milestones beside other work, and nothing left when it is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka import long_lived_consumer
from cutwater.client import CommittedMilestone, committed_async
from cutwater.client import from_changelog as changelog_module
from cutwater.client.committed import THREAD
from support.views.changelogs import Sold, Writing, make_job
from support.views.publishing import create, pieces, publishing, read, wait_published

PATIENCE_S = 60
SOURCES = ["output", "changelog"]


def sold(amount: int) -> list[Sold]:
    return [Sold(f"shop-{number}", 1, amount + number) for number in range(20)]


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(broker.cluster, make_job(tmp_path)[0])
    create(broker.cluster, made.job)
    yield made
    made.close()


class Consumers:
    """Every consumer that the client library made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[Any] = []
        for module in (long_lived_consumer, changelog_module):
            monkeypatch.setattr(module, "make_consumer", self._make(module.make_consumer))

    def _make(self, real: Any) -> Any:
        def make(*args: Any, **options: Any) -> Any:
            self.made.append(real(*args, **options))
            return self.made[-1]

        return make

    def all_closed(self) -> bool:
        return all(_closed(one) for one in self.made)


def _closed(consumer: Any) -> bool:
    try:
        consumer.assignment()
    except RuntimeError:
        return True
    return False


async def first(
    milestones: AsyncIterator[CommittedMilestone], count: int, seen: list[object] | None = None
) -> list[CommittedMilestone]:
    found: list[CommittedMilestone] = []
    async for one in milestones:
        found.append(one)
        if seen is not None:
            seen.append(one)
        if len(found) == count:
            break
    return found


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_two_readers_side_by_side_get_every_milestone(writing: Writing, tmp_path: Path, source: Any) -> None:
    """Neither takes anything from the other, and the event loop goes on while both wait."""

    async def run() -> tuple[list[list[CommittedMilestone]], int]:
        ticks, turning = 0, True

        async def turn() -> None:
            nonlocal ticks
            while turning:
                ticks += 1
                await asyncio.sleep(0.01)

        async def write() -> None:
            for amount in (10, 20):
                await asyncio.sleep(0.5)
                await asyncio.to_thread(writing.epoch, sold(amount))

        beside = asyncio.create_task(turn())
        readers = [
            first(committed_async(writing.job, writing.cluster, source=source, after=token), 2) for _ in "ab"
        ]
        *found, _ = await asyncio.wait_for(asyncio.gather(*readers, write()), PATIENCE_S)
        turning = False
        await beside
        return found, ticks

    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        writing.epoch(sold(1))
        wait_published(writing.cluster, writing.job, 1)
        token = read(writing.cluster, writing.job, 1)[0].token
        (one, other), ticks = asyncio.run(run())
    assert [each.token.sequence for each in one] == [2, 3]
    assert [each.token for each in other] == [each.token for each in one]
    assert list(map(pieces, other)) == list(map(pieces, one))  # rows have no order across partitions
    assert [min(pieces(each).values()) for each in one] == [10, 20]
    assert ticks > 10


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_cancelling_a_reader_that_waits_ends_it(
    writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Any
) -> None:
    """The task is cancelled, no thread waits on, every consumer is closed; a new one goes on behind the token."""
    consumers, found = Consumers(monkeypatch), []

    async def follow() -> None:
        async for one in committed_async(writing.job, writing.cluster, source=source):
            found.append(one)

    async def run() -> None:
        task = asyncio.create_task(follow())
        while not found:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)  # now it waits for the next
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE_S)

    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        writing.epoch(sold(1))
        wait_published(writing.cluster, writing.job, 1)
        consumers.made.clear()
        asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
        assert source == "changelog" or consumers.made, "the reader has made one"
        assert consumers.all_closed()
        writing.epoch(sold(2))
        again = committed_async(writing.job, writing.cluster, source=source, after=found[-1].token)
        (found_then,) = asyncio.run(first(again, 1))
    assert found_then.token.sequence == 2


def test_readers_that_wait_leave_the_event_loop_its_threads(writing: Writing) -> None:
    """More readers than the default executor has threads, all waiting: other work gets one at once.

    Each reader has one thread of its own, which is gone once the reader is.
    """

    async def run() -> list[list[CommittedMilestone]]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        seen: list[object] = []
        readers = [
            asyncio.create_task(first(committed_async(writing.job, writing.cluster, source="changelog"), 2, seen))
            for _ in "abc"
        ]
        while len(seen) < 3:  # a reader that comes later is given both milestones as one
            await asyncio.sleep(0.02)
        assert len(own_threads()) == 3
        await asyncio.to_thread(writing.epoch, sold(2))
        return await asyncio.gather(*readers)

    writing.epoch(sold(1))
    found = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert [[one.token.sequence for one in each] for each in found] == [[1, 2]] * 3
    for thread in own_threads():
        thread.join(PATIENCE_S)
    assert own_threads() == []


def own_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith(THREAD)]


def test_a_reader_that_is_left_early_closes_its_consumer(
    writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaving the loop in an `aclosing` block leaves no connection behind."""
    consumers = Consumers(monkeypatch)

    async def run() -> None:
        async with aclosing(committed_async(writing.job, writing.cluster)) as milestones:  # type: ignore[type-var]
            await first(milestones, 1)
            assert not consumers.all_closed()
        assert consumers.all_closed()

    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        writing.epoch(sold(1))
        wait_published(writing.cluster, writing.job, 1)
        consumers.made.clear()
        asyncio.run(run())
    assert consumers.made
