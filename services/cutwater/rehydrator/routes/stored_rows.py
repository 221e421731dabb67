"""Routes of stored rows, for the rehydrator that merges regions."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException

from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.query.key_path import path_of
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.http_api.keys_body import Keys
from cutwater.rehydrator.http_api.parameters import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    WAIT_MS_DEFAULT,
    After,
    AtLeast,
    From,
    KeyPath,
    Limit,
    Prefix,
    Shards,
    StoredLimit,
    To,
    WaitMs,
)
from cutwater.rehydrator.http_api.sets_body import SET_ROWS_MAX, Sets
from cutwater.rehydrator.routes.distinct import require_few
from cutwater.rehydrator.routes.keys_and_top import RANKING_S
from cutwater.rehydrator.routes.owners import Answer, Owners, Span, Wait
from cutwater.rehydrator.routes.stored_form import about, join_pages, of_owners, packed
from cutwater.views.query.pages import Part

LARGE_MAX = 4
"""Larger pages than other answers at a time: for rankings, tens of megabytes each."""


class StoredRows:
    """The region's part of a global answer: each owner's rows at one milestone, and the facts for the merge."""

    def __init__(self, context: RouteContext, owners: Owners) -> None:
        self._context, self._owners = context, owners
        self._view = context.view
        self._large = 0

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
        """The windows of one key as they are stored, for the global view of another rehydrator."""
        first, end = parsing.time_ms("from", from_), parsing.time_ms("to", to)

        def read() -> Answer:
            page = self._view.read(key, first, end, limit)
            self._context.count_read(key, page.rows)
            facts = about(self._context, page.milestone)
            return {**facts, "rows": packed(page.rows), "next_from_ms": page.next_from_ms}

        path = path_of(key).replace("/v1/state/", "/v1/stored/", 1)
        return await self._owners.of_key(request, key, path, Wait(at_least, wait_ms), read)

    async def keys(
        self, request: Request, asked: Keys, at_least: AtLeast = None, wait_ms: WaitMs = WAIT_MS_DEFAULT
    ) -> Response:
        """The windows of several keys as they are stored, for the global view of another rehydrator."""

        def join(parts: list[Answer]) -> Answer:
            return {**of_owners(parts), "keys": [one for part in parts for one in part["keys"]]}

        return await self._owners.of_keys(
            request, asked, "/v1/stored-keys", Wait(at_least, wait_ms), self._keys, join
        )

    def _keys(self, asked: Keys, span: Span) -> Answer:
        page = self._view.read_several(asked.keys, *span, asked.limit, asked.rows)
        for one in page.pages:
            self._context.count_read(one.key, one.rows)
        keys = [{"key": one.key, "rows": packed(one.rows), "next_from_ms": one.next_from_ms} for one in page.pages]
        return {**about(self._context, page.milestone), "keys": keys}

    async def sets(
        self, request: Request, asked: Sets, at_least: AtLeast = None, wait_ms: WaitMs = WAIT_MS_DEFAULT
    ) -> Response:
        """The windows of several sets as they are stored, for the global view of another rehydrator."""
        parsing.theta_measure(asked.measure, self._view.measures)
        asked.spans()  # refuses an invalid time before any owner is asked

        def join(parts: list[Answer]) -> Answer:
            return {**of_owners(parts), "sets": [one for part in parts for one in part["sets"]]}

        return await self._owners.of_sets(
            request, asked, "/v1/stored-sets", Wait(at_least, wait_ms), self._sets, join
        )

    def _sets(self, asked: Sets) -> Answer:
        page = self._view.read_spans(asked.spans(), SET_ROWS_MAX + 1, SET_ROWS_MAX + 1)
        require_few(sum(len(one.rows) for one in page.pages))  # a part of a set would be counted as the whole
        sets = [
            {**one.shown, "rows": packed(read.rows)} for one, read in zip(asked.every, page.pages, strict=True)
        ]
        return {**about(self._context, page.milestone), "sets": sets}

    async def scan(
        self,
        request: Request,
        from_: From = None,
        to: To = None,
        shards: Shards = None,
        after: After = None,
        limit: StoredLimit = LIMIT_DEFAULT,
        prefix: Prefix = "",
        at_least: AtLeast = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
    ) -> Response:
        """Rows of all owners as they are stored, in their order, for the global view of another rehydrator."""
        part = Part(
            parsing.time_ms("from", from_),
            parsing.time_ms("to", to),
            parsing.shards(shards, self._view.shards),
            prefix,
        )
        place = parsing.place(after)
        if self._context.holds(names=False):
            raise HTTPException(421, "this replica holds only a part: ask a rehydrator that holds everything")
        self._context.peers.require_agreed(request)
        large = limit > LIMIT_MAX

        async def read() -> Answer:
            return await run_in_threadpool(self._page, place, limit, part)

        def join(parts: list[Answer]) -> Answer:
            return parts[0] if len(parts) == 1 else join_pages(parts, limit)

        wait = Wait(at_least, wait_ms, RANKING_S if large else 0.0)
        with self._admitted() if large else nullcontext():
            return await self._owners.of_every_part(request, "/v1/stored", wait, read, join)

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        if self._large >= LARGE_MAX:
            raise UnavailableError(f"{LARGE_MAX} large pages are already being read: try again in a moment")
        self._large += 1
        try:
            yield
        finally:
            self._large -= 1

    def _page(self, place: bytes | None, limit: int, part: Part) -> Answer:
        try:
            page = self._view.scan(place, limit, part)
        except UsageError as error:
            raise HTTPException(400, f"after: {error}") from None
        following = None if page.after is None else base64.urlsafe_b64encode(page.after).decode()
        return {**about(self._context, page.milestone), "rows": packed(page.rows), "next": following}
