"""Requests that wait for a milestone: woken when one is shown, and asleep until then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.exceptions import HTTPException

from cutwater.rehydrator.cluster.peers import Peers
from cutwater.rehydrator.http_api import context
from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.http_api.generation_app import GenerationApp, SuccessorAnswer
from cutwater.rehydrator.http_api.milestone_waiters import Waiters
from cutwater.rehydrator.metrics.metrics import Metrics
from support.views.apiserving import Own
from support.views.changelogs import GENERATION, Sold, Writing, make_job, now_ms, until
from support.views.rehydrating import running

NEVER_S = 3_600.0
TOKEN = f"{GENERATION}:2"


async def received() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


REQUEST = Request({"type": "http", "headers": []}, received)


class Looked(RouteContext):
    """Counts how often somebody looks whether a milestone is reached."""

    looks = 0

    def _reached(self, token: Any) -> bool:
        self.looks += 1
        return super()._reached(token)


class Asked:
    """A view at milestone 1, for which it may be waited."""

    def __init__(self, folder: Path) -> None:
        job, _ = make_job(folder)
        self.own = Own(folder / "v", job)
        self.own.show(1, {})
        self.waiters = Waiters()
        self.successor: GenerationApp | None = None
        metrics = Metrics()
        peers = Peers.none(metrics)
        self.answering = Looked(
            self.own.view, GENERATION, metrics, now_ms, peers, None, lambda: self.successor, self.waiters
        )

    def show(self, sequence: int) -> None:
        self.own.show(sequence, {})
        self.waiters.wake()


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    one = Asked(tmp_path)
    yield one
    one.own.close()


def test_all_are_woken_by_the_thread_that_shows_it(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """400 of them, none of which looks by itself: two looks each before, and one behind."""
    monkeypatch.setattr(context, "LOOK_S", NEVER_S)

    async def ask() -> None:
        waiting = [
            asyncio.ensure_future(asked.answering.wait_for_token(REQUEST, TOKEN, 600_000)) for _ in range(400)
        ]
        await asyncio.sleep(0)
        shows = threading.Thread(target=asked.show, args=(2,))
        shows.start()
        await asyncio.gather(*waiting)
        shows.join()

    asyncio.run(ask())
    assert asked.answering.looks <= 3 * 400
    assert asked.waiters._turns == {}


def test_who_waits_hardly_looks(asked: Asked) -> None:
    """Where nothing is shown: once a second, and not each few milliseconds."""

    async def ask() -> None:
        with pytest.raises(HTTPException) as refused:
            await asked.answering.wait_for_token(REQUEST, TOKEN, 2_000)
        assert refused.value.status_code == 412

    asyncio.run(ask())
    assert asked.answering.looks <= 6


def test_no_milestone_is_missed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shown in any moment between a look and the sleep behind it: who waits sees it all the same."""
    monkeypatch.setattr(context, "LOOK_S", NEVER_S)

    async def ask(sequence: int) -> None:
        await asked.answering.wait_for_token(REQUEST, f"{GENERATION}:{sequence}", 600_000)

    for sequence in range(2, 120):
        shows = threading.Thread(target=asked.show, args=(sequence,))
        shows.start()
        asyncio.run(ask(sequence))
        shows.join()


def test_another_generation_wakes_them(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "LOOK_S", NEVER_S)

    async def ask() -> None:
        waiting = asyncio.ensure_future(asked.answering.wait_for_token(REQUEST, TOKEN, 600_000))
        await asyncio.sleep(0)
        asked.successor = GenerationApp(FastAPI(), "")
        asked.waiters.wake()
        assert isinstance(await waiting, SuccessorAnswer)

    asyncio.run(ask())


def test_a_loop_that_has_ended_is_no_trouble(asked: Asked) -> None:
    """Of a server that was stopped while somebody waited."""

    async def leave() -> None:
        asked.waiters.turn().__enter__()

    asyncio.run(leave())
    asked.waiters.wake()


def test_a_rehydrator_wakes_who_waits(broker: Any, tmp_path: Path) -> None:
    """The whole service, in which nobody looks by himself: an answer at the next milestone."""
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    writing.epoch([Sold("a", 1, 1)])
    prefix = f"from cutwater.rehydrator.http_api import context as answering; answering.LOOK_S = {NEVER_S}"
    with running(broker.cluster, path, tmp_path / "data", prefix=prefix) as served:
        until(lambda: served.answers() and served.shown() == 1, "the first milestone")
        found: list[int] = []

        def ask() -> None:
            found.append(served.get("/v1/milestone", at_least=TOKEN, wait_ms=30_000).json()["sequence"])

        asking = threading.Thread(target=ask)
        asking.start()
        until(lambda: "cutwater_view_waiting_requests 1.0" in served.get("/metrics").text, "the request to wait")
        writing.epoch([Sold("a", 1, 2)])
        asking.join(60)
        assert found == [2]
    writing.close()
