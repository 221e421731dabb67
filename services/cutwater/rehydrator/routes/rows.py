"""Routes that read rows: the windows of one key, and all rows page by page."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException

from cutwater.core.errors import UsageError
from cutwater.core.query.key_path import KEY_ROUTE, path_of
from cutwater.core.util.timestamps import iso
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import RouteContext, patience, render
from cutwater.rehydrator.http_api.parameters import (
    LIMIT_DEFAULT,
    WAIT_MS_DEFAULT,
    After,
    AskedKey,
    AtLeast,
    From,
    KeyPath,
    Limit,
    Shards,
    To,
    WaitMs,
)
from cutwater.views.query.pages import Part, ScanPage


class RowRoutes:
    """Rows of the view, or of the peer that holds them."""

    def __init__(self, answering: RouteContext) -> None:
        self._answering = answering
        self._view = answering.view
        self._peers = answering.peers

    async def key(
        self,
        request: Request,
        key: KeyPath,
        from_: From = None,
        to: To = None,
        limit: Limit = LIMIT_DEFAULT,
        at_least: AtLeast = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
    ) -> Response:
        """The windows of one key that start in [from, to), oldest first; `next_from` if there are more."""
        return await self._windows(request, path_of(key), key, (from_, to), limit, at_least, wait_ms)

    async def _windows(
        self,
        request: Request,
        path: str,
        key: str,
        span: tuple[str | None, str | None],
        limit: int,
        at_least: str | None,
        wait_ms: int,
    ) -> Response:
        """Return a key's windows. `path`: the path of the same request at a peer."""
        from_, to = span
        first, end = parsing.time_ms("from", from_), parsing.time_ms("to", to)
        self._answering.require(key)
        self._peers.require_agreed(request)
        holders, wait_s = self._peers.of_key(key), patience(at_least, wait_ms)
        if answer := await self._peers.ask_holders(holders, path, request, wait_s):
            return answer
        if answer := await self._answering.wait_for_token(request, at_least, wait_ms):
            return answer

        def read() -> dict[str, Any]:
            page = self._view.read(key, first, end, limit)
            following = None if page.next_from_ms is None else iso(page.next_from_ms)
            hint = parsing.hint(self._view.evicted(page.milestone, first))
            told = self._answering.page(page.milestone, page.rows)
            return {"key": key, **told, "next_from": following, **hint, **self._answering.holds(names=False)}

        return await run_in_threadpool(render, read)

    async def scan(
        self,
        request: Request,
        key: AskedKey,
        from_: From = None,
        to: To = None,
        shards: Shards = None,
        after: After = None,
        limit: Limit = LIMIT_DEFAULT,
        at_least: AtLeast = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
    ) -> Response:
        """All rows, or those of some windows and shards, page by page: pass `next` as `after`.

        A page examines at most 100,000 stored rows, so it may be short or empty; the last one has no `next`. Pages
        may be of different milestones: compare them.

        With `key` or `key64`: the windows of that key, as by its path; without `shards` and `after`.
        """
        if key is not None:
            parsing.require_alone(shards, after)
            return await self._windows(request, KEY_ROUTE, key, (from_, to), limit, at_least, wait_ms)
        part = Part(
            parsing.time_ms("from", from_),
            parsing.time_ms("to", to),
            wanted := parsing.shards(shards, self._view.shards),
        )
        self._peers.require_agreed(request)
        turn, place = parsing.cursor(after, self._peers.agreed)
        if after is None:
            turn = self._peers.next_turn(0, wanted) or 0
        holders, wait_s = self._peers.at(turn), patience(at_least, wait_ms)
        if answer := await self._peers.ask_holders(holders, KEY_ROUTE, request, wait_s):
            return answer
        if answer := await self._answering.wait_for_token(request, at_least, wait_ms):
            return answer

        def read() -> dict[str, Any]:
            page = self._scanned(place, limit, part)
            following = parsing.cursor_text(self._peers.agreed, turn, page.after)
            if page.after is None and (then := self._peers.next_turn(turn + 1, wanted)) is not None:
                following = parsing.cursor_text(self._peers.agreed, then, b"")
            return {
                **self._answering.page(page.milestone, page.rows),
                "next": following,
                **self._answering.holds(names=True),
            }

        return await run_in_threadpool(render, read)

    def _scanned(self, place: bytes | None, limit: int, part: Part) -> ScanPage:
        try:
            return self._view.scan(place, limit, part)
        except UsageError as error:
            raise HTTPException(400, f"after: {error}") from None
