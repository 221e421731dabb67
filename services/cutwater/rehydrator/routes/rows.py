"""Routes that read rows: the windows of one key, and all rows page by page."""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.exceptions import HTTPException

from cutwater.core.errors import UsageError
from cutwater.core.query.key_path import KEY_ROUTE, path_of
from cutwater.core.util.timestamps import iso
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import RouteContext
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
from cutwater.rehydrator.routes.owners import Answer, Owners, Wait
from cutwater.views.query.pages import Part, ScanPage


class RowRoutes:
    """Rows of the view, or of the peer that holds them."""

    def __init__(self, context: RouteContext, owners: Owners) -> None:
        self._context, self._owners = context, owners
        self._view = context.view
        self._peers = context.peers

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
        key = parsing.stored_key(key, self._view.job)
        return await self._windows(request, path_of(key), key, (from_, to), limit, Wait(at_least, wait_ms))

    async def _windows(
        self, request: Request, path: str, key: str, span: tuple[str | None, str | None], limit: int, wait: Wait
    ) -> Response:
        first, end = parsing.time_ms("from", span[0]), parsing.time_ms("to", span[1])

        def read() -> Answer:
            page = self._view.read(key, first, end, limit)
            self._context.count_read(key, page.rows)
            following = None if page.next_from_ms is None else iso(page.next_from_ms)
            hint = parsing.hint(self._view.evicted(page.milestone, first))
            found = self._context.page(page.milestone, page.rows)
            return {"key": key, **found, "next_from": following, **hint, **self._context.holds(names=False)}

        return await self._owners.of_key(request, key, path, wait, read)

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

        A page examines at most 100,000 stored rows, and has 32 MiB of them, so it may be short or empty; the last
        one has no `next`. Pages may be of different milestones: compare them.

        With `key` or `key64`: the windows of that key, as by its path; without `shards` and `after`. If the job's
        key is a list, so are its columns as parameters; leading columns alone choose the rows that have them. A
        column that is null is named by `null`, as in `null=carrier`.
        """
        key, prefix = parsing.key_or_prefix(key, request.query_params, self._view.job)
        if key is not None:
            parsing.require_alone(shards, after)
            return await self._windows(request, KEY_ROUTE, key, (from_, to), limit, Wait(at_least, wait_ms))
        part = Part(
            parsing.time_ms("from", from_),
            parsing.time_ms("to", to),
            wanted := parsing.shards(shards, self._view.shards),
            prefix,
        )
        self._peers.require_agreed(request)
        turn, place = parsing.cursor(after, self._peers.agreed)
        if after is None:
            turn = self._peers.next_turn(0, wanted) or 0

        def read() -> Answer:
            page = self._page(place, limit, part)
            following = parsing.cursor_text(self._peers.agreed, turn, page.after)
            if page.after is None and (then := self._peers.next_turn(turn + 1, wanted)) is not None:
                following = parsing.cursor_text(self._peers.agreed, then, b"")
            return {
                **self._context.page(page.milestone, page.rows),
                "next": following,
                **self._context.holds(names=True),
            }

        holders = self._peers.at(turn)
        return await self._owners.of_part(request, holders, KEY_ROUTE, Wait(at_least, wait_ms), read)

    def _page(self, place: bytes | None, limit: int, part: Part) -> ScanPage:
        try:
            return self._view.scan(place, limit, part)
        except UsageError as error:
            raise HTTPException(400, f"after: {error}") from None
