"""The route that tells what each milestone changes, as it is shown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Annotated, Any

from fastapi import Header, Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException

from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.generations import Token
from cutwater.core.recent import Behind
from cutwater.core.records import Milestone
from cutwater.rehydrator.answering import Answering
from cutwater.rehydrator.events import BEGIN, HEARTBEAT, HEARTBEAT_S, Events, event
from cutwater.rehydrator.parameters import Prefix
from cutwater.views.changes import Changed, Changes
from cutwater.views.layout import Window, parse
from cutwater.views.rows import Presenter, Row

EVENT_ROWS = 1_000
"""More rows of a milestone come in several events."""
_LOOK_S = 0.02

After = Annotated[str | None, Query(description="Token of a milestone: what came after it. Else from now on.")]
LastEventId = Annotated[str | None, Header(description="A header: the same, of a reader that comes back.")]
Key = Annotated[str | None, Query(description="Only this key.")]
Wanted = Callable[[Window], bool]


class Following:
    """Readers of changes, each at a milestone of its own."""

    def __init__(self, answering: Answering, changes: Changes, shown: Callable[[], Following]) -> None:
        """`shown`: this route of the generation that is shown, where another one may take over."""
        self._answering = answering
        self._changes = changes
        self._shown = shown

    async def changes(
        self, after: After = None, prefix: Prefix = "", key: Key = None, last_event_id: LastEventId = None
    ) -> Response:
        """What each milestone changes, as server-sent events (`text/event-stream`), for as long as you read.

        `changes`: a milestone, and the rows that it changed as `/v1/state` shows them; never before it is shown
        there. A large one comes in several such events, of which only the last has `"last": true` and an id, the
        milestone's token. `reset`: what follows begins at the milestone that it names, and what came before is not
        kept here: read the state (`at_least`), then go on. It comes first where no token is given, or one that is
        too old or of another generation; when another generation is shown; and when the view was restored.
        `behind`: you read more slowly than changes come, and the answer ends. Come back with the last id, as
        `Last-Event-ID` (browsers do so) or `after`: every later milestone comes once and in order, or `reset`
        does; of one that was broken off, all of it. A row that the horizon passes goes without an event.
        Heartbeats are comments.
        """
        place = last_event_id or after
        sequence = self._sequence(place) if place else None
        view, peers = self._answering.view, self._answering.peers
        if view.milestone is None:
            raise UnavailableError(view.nothing)
        if key is not None:
            self._answering.require(key)
            if peer := peers.owner_elsewhere(key):
                raise HTTPException(421, f"{peer} holds this key: follow it there")

        def wanted(window: Window) -> bool:
            return window.key.startswith(prefix) and key in (None, window.key)

        return Events(self._all(sequence, key, wanted), self._changes.following())

    def _sequence(self, text: str) -> int:
        """400 where it is no token. Of another generation it was lost, and no place to go on from: before all."""
        try:
            token = Token.parse(text)
        except UsageError:
            raise HTTPException(400, f"{text[:80]!r} is not a token: pass the id of an event, unchanged") from None
        return token.sequence if token.generation == self._answering.generation else -1

    async def _all(self, sequence: int | None, key: str | None, wanted: Wanted) -> AsyncIterator[str]:
        """Of one generation after the other. Where the next holds the key elsewhere, who comes back hears so."""
        yield BEGIN
        async for text in self._events(sequence, wanted):
            yield text
        one = self
        while (later := self._shown()) is not one:
            one = later
            if key is not None and later._answering.peers.owner_elsewhere(key):
                return
            with later._changes.following():
                async for text in later._events(None, wanted):
                    yield text

    async def _events(self, sequence: int | None, wanted: Wanted) -> AsyncIterator[str]:
        """Until another generation is shown."""
        spoken = time.monotonic()
        following = False
        while (shown := self._answering.view.milestone) is not None and self._shown() is self:
            try:
                changed = self._changes.after(sequence) if sequence is not None else None
                if changed is not None:
                    async for text in self._told(changed, wanted):
                        yield text
                    sequence, following, spoken = changed.milestone.sequence, True, time.monotonic()
                    continue
            except Behind as behind:
                if behind.evicted and following:
                    self._answering.metrics.cut_off.inc()
                    yield event("behind", {"error": "you read more slowly than changes come: come back"})
                    return
                sequence = None
            if sequence is None:
                sequence = shown.sequence
                yield self._reset(shown)
            elif time.monotonic() - spoken > HEARTBEAT_S:
                yield HEARTBEAT
                spoken = time.monotonic()
            await asyncio.sleep(_LOOK_S)

    def _reset(self, shown: Milestone) -> str:
        data = {"milestone": self._answering.milestone(shown), "partitions": self._answering.partitions}
        data |= self._answering.holds(names=True)
        return event("reset", data, str(shown.token))

    async def _told(self, changed: Changed, wanted: Wanted) -> AsyncIterator[str]:
        """Raises Behind where it is not kept any more: a slow reader shall not keep it instead."""
        pieces = self._pieces(changed, wanted)
        while text := await run_in_threadpool(next, pieces, ""):
            self._changes.after(changed.milestone.sequence - 1)
            yield text

    def _pieces(self, changed: Changed, wanted: Wanted) -> Iterator[str]:
        """The events of one milestone; at least one, so that its readers know how far they are."""
        milestone, presenter = changed.milestone, Presenter(self._answering.view.job)
        windows = ((parse(storage), value) for storage, value in changed.rows.items())
        rows = (presenter.row(window, value) for window, value in windows if wanted(window))
        piece = list(islice(rows, EVENT_ROWS))
        while following := list(islice(rows, EVENT_ROWS)):
            yield event("changes", {**self._page(milestone, piece), "last": False})
            piece = following
        yield event("changes", {**self._page(milestone, piece), "last": True}, str(milestone.token))

    def _page(self, milestone: Milestone, rows: list[Row]) -> dict[str, Any]:
        return {**self._answering.page(milestone, rows), **self._answering.holds(names=True)}
