"""The route that streams each milestone's changes, once it is shown."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, NamedTuple

from fastapi import Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException

from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.records import Milestone
from cutwater.core.query.change_buffer import Behind
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.http_api.generation_app import GenerationApp, move_request
from cutwater.rehydrator.http_api.parameters import Prefix
from cutwater.rehydrator.http_api.sse import BEGIN, HEARTBEAT, HEARTBEAT_S, Events, event, event_of
from cutwater.rehydrator.routes.change_text import ChangeTexts, Wanted
from cutwater.views.query.change_feed import Changes
from cutwater.views.store.key_layout import Window

After = Annotated[str | None, Query(description="Token of a milestone: changes after it. Default: from now on.")]
LastEventId = Annotated[str | None, Header(description="A header: the same, from a reader that reconnects.")]
Key = Annotated[str | None, Query(description="Only this key.")]


class _Place(NamedTuple):
    """A reader's position: it has this milestone completely, and `row` rows of the next one."""

    sequence: int
    row: int = 0


class ChangeRoutes:
    """The change streams, each reader at a milestone of its own."""

    def __init__(
        self, context: RouteContext, changes: Changes, shown: Callable[[], GenerationApp | None] = lambda: None
    ) -> None:
        """`shown`: returns the application of the generation that is shown; None if there is only this one."""
        self._context = context
        self._changes = changes
        self._telling = ChangeTexts()
        self._shown = shown

    async def changes(
        self,
        request: Request,
        after: After = None,
        prefix: Prefix = "",
        key: Key = None,
        last_event_id: LastEventId = None,
    ) -> Response:
        """What each milestone changes, as server-sent events (`text/event-stream`), until you disconnect.

        `changes`: a milestone, and the rows that it changed in the form of `/v1/state`; never before it is shown
        there. A large milestone has several such events; only the last has `"last": true` and an id, the
        milestone's token. `reset`: events start after the milestone that it names, and earlier changes are not
        kept: read the state (`at_least`), then continue. It comes first without a token, or if the token is too
        old or of another generation; also after a switch to another generation or a restore of the view, and if
        the commit stream ends before the token, because the job was begun again. `behind`:
        you read more slowly than changes arrive, and the answer ends. Reconnect with the last id as
        `Last-Event-ID` (browsers do) or `after`: every later milestone arrives once and in order, or `reset` does;
        an interrupted milestone is repeated as a whole. A row that the horizon passes has no event. Heartbeats are
        comments.
        """
        place = last_event_id or after
        sequence = self._sequence(place) if place else None
        view, peers = self._context.view, self._context.peers
        if view.milestone is None:
            raise UnavailableError(view.missing_reason)
        if key is not None:
            key = parsing.stored_key(key, view.job)
            self._context.require(key)
            if peer := peers.owner_elsewhere(key):
                raise HTTPException(421, f"{peer} holds this key: follow it there")

        else:
            self._context.require_prefix(prefix)

        def wanted(window: Window) -> bool:
            return window.key.startswith(prefix) and key in (None, window.key)

        everything = key is None and not prefix
        events = self._all(request, sequence, key, None if everything else wanted)
        return Events(events, self._changes.keep_changes())

    def _sequence(self, text: str) -> int:
        """Raise 400 for an invalid token. A token of another generation returns -1: before all changes kept."""
        try:
            token = Token.parse(text)
        except UsageError:
            raise HTTPException(400, f"{text[:80]!r} is not a token: pass the id of an event, unchanged") from None
        return token.sequence if token.generation == self._context.generation else -1

    async def _all(
        self, request: Request, sequence: int | None, key: str | None, wanted: Wanted | None
    ) -> AsyncIterator[str]:
        """Yield the events of each generation. If the next one holds the key elsewhere, the stream ends."""
        yield BEGIN
        async for text in self._events(sequence, wanted):
            yield text
        one = self
        while (app := self._shown()) is not None and (later := app.app.state.following) is not one:
            one = later
            if key is not None and later._context.peers.owner_elsewhere(key):
                return
            move_request(request, app)  # else the view of the generation before would stay as long as the reader
            with later._changes.keep_changes():
                async for text in later._events(None, wanted):
                    yield text

    async def _events(self, sequence: int | None, wanted: Wanted | None) -> AsyncIterator[str]:
        spoken = time.monotonic()
        following = False
        place = None if sequence is None else _Place(sequence)
        while (shown := self._context.view.milestone) is not None and self._is_shown:
            try:
                if place is not None and self._changes.after(place.sequence) is not None:
                    told, behind_it = await run_in_threadpool(self._next_text, place, wanted)
                    yield told
                    place, spoken = behind_it, time.monotonic()
                    following = following or not place.row
                    continue
            except Behind as behind:
                if behind.evicted and following:
                    self._context.metrics.cut_off.inc()
                    yield event("behind", {"error": "you read more slowly than changes arrive: reconnect"})
                    return
                place = None
            if place is None:
                place = _Place(shown.sequence)
                yield self._reset(shown)
            elif time.monotonic() - spoken > HEARTBEAT_S:
                if place.sequence > shown.sequence and self._context.view.current:
                    place = None  # of a stream that was begun again: this one has nothing to continue it with
                    continue
                yield HEARTBEAT
                spoken = time.monotonic()
            await self._context.wait_for_change(partial(self._due, place))

    @property
    def _is_shown(self) -> bool:
        app = self._shown()
        return app is None or app.app.state.following is self

    def _due(self, place: _Place) -> bool:
        try:
            return not self._is_shown or self._changes.after(place.sequence) is not None
        except Behind:
            return True

    def _reset(self, shown: Milestone) -> str:
        data = {"milestone": self._context.milestone(shown), "partitions": self._context.partitions}
        data |= self._context.holds(names=True)
        return event("reset", data, str(shown.token))

    def _next_text(self, place: _Place, wanted: Wanted | None) -> tuple[str, _Place]:
        """Return the next piece of a milestone, even without wanted rows, and the position after it.

        The rows stay with `Changes`. Raises Behind if they are no longer kept: slow readers do not keep them.
        """
        changed = self._changes.after(place.sequence)
        if changed is None:
            raise Behind(evicted=False)
        milestone = changed.milestone
        piece = self._telling.piece(self._context.view.job, changed, place.row, wanted)
        about = {"milestone": self._context.milestone(milestone), **self._context.holds(names=True)}
        # The rows are shared text; the milestone's age is not, so it is added here.
        if piece.following is None:
            then, name = _Place(milestone.sequence), str(milestone.token)
        else:
            then, name = place._replace(row=piece.following), None
        data = f'{json.dumps({**about, "last": name is not None})[:-1]}, "rows": {piece.rows}}}'
        return event_of("changes", data, name), then
