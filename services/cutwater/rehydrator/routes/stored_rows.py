"""Routes of stored rows, for the rehydrator that merges regions."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException

from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol.records import Milestone
from cutwater.core.query.event_overlap import Source, counted_sources
from cutwater.core.query.global_merge import root_of
from cutwater.core.query.key_path import path_of
from cutwater.rehydrator.cluster.peers import Holders
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import RouteContext, patience, render
from cutwater.rehydrator.http_api.parameters import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    WAIT_MS_DEFAULT,
    After,
    AtLeast,
    From,
    KeyPath,
    Limit,
    Shards,
    StoredLimit,
    To,
    WaitMs,
)
from cutwater.rehydrator.routes.keys_and_top import RANKING_S
from cutwater.views.query.pages import Part, Stored
from cutwater.views.store.key_layout import Window, storage_key

Answer = dict[str, Any]
MARK_BYTES = 8
LARGE_MAX = 4
"""Larger pages than other answers at a time: for rankings, tens of megabytes each."""


class StoredRows:
    """The region's part of a global answer: each owner's rows at one milestone, and the facts for the merge."""

    def __init__(self, answering: RouteContext) -> None:
        self._answering = answering
        self._view = answering.view
        self._peers = answering.peers
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
        self._answering.require(key)
        self._peers.require_agreed(request)
        holders, wait_s = self._peers.of_key(key), patience(at_least, wait_ms)
        path = path_of(key).replace("/v1/state/", "/v1/stored/", 1)
        if answer := await self._peers.ask_holders(holders, path, request, wait_s):
            return answer
        if answer := await self._answering.wait_for_token(request, at_least, wait_ms):
            return answer

        def read() -> Answer:
            page = self._view.read_stored(key, first, end, limit)
            return {
                **about(self._answering, page.milestone),
                "rows": packed(page.rows),
                "next_from_ms": page.next_from_ms,
            }

        return await run_in_threadpool(render, read)

    async def scan(
        self,
        request: Request,
        from_: From = None,
        to: To = None,
        shards: Shards = None,
        after: After = None,
        limit: StoredLimit = LIMIT_DEFAULT,
        at_least: AtLeast = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
    ) -> Response:
        """Rows of all owners as they are stored, in their order, for the global view of another rehydrator."""
        part = Part(
            parsing.time_ms("from", from_),
            parsing.time_ms("to", to),
            parsing.shards(shards, self._view.shards),
        )
        place = parsing.place(after)
        if self._answering.holds(names=False):
            raise HTTPException(421, "this replica holds only a part: ask a rehydrator that holds everything")
        self._peers.require_agreed(request)
        large = limit > LIMIT_MAX
        wait_s = patience(at_least, wait_ms) + (RANKING_S if large else 0.0)

        async def of(holders: Holders) -> Answer | Response:
            if answer := await self._peers.ask_holders(holders, "/v1/stored", request, wait_s):
                return answer
            if answer := await self._answering.wait_for_token(request, at_least, wait_ms):
                return answer
            return await run_in_threadpool(self._page, place, limit, part)

        with self._admitted() if large else nullcontext():
            answers = await asyncio.gather(*(of(holders) for holders in self._peers.parts(request)))
            refusals = (one for one in answers if isinstance(one, Response) and one.status_code != 200)
            if refusal := next(refusals, None):
                return refusal

            def join() -> Answer:
                parts = [json.loads(bytes(one.body)) if isinstance(one, Response) else one for one in answers]
                return parts[0] if len(parts) == 1 else joined(parts, limit)

            return await run_in_threadpool(render, join)

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
            page = self._view.scan_stored(place, limit, part)
        except UsageError as error:
            raise HTTPException(400, f"after: {error}") from None
        following = None if page.after is None else base64.urlsafe_b64encode(page.after).decode()
        return {**about(self._answering, page.milestone), "rows": packed(page.rows), "next": following}


def about(answering: RouteContext, milestone: Milestone) -> Answer:
    """Return the facts that a merge needs about a region's part at a milestone."""
    view = answering.view
    root = root_of(milestone.generation, view.lineage)
    return {
        "job": view.job.name,
        "fingerprint": view.job.fingerprint,
        "lineage": None if root is None else str(root),
        "sources": _grouped(counted_sources(milestone, view.job.topic)),
        "layout_ms": view.segment_ms,
        "complete_above_ms": view.complete_above_ms(milestone),
        "watermark_ms": milestone.watermark_ms,
        "milestones": [answering.owners(milestone)],
    }


def joined(parts: list[Answer], limit: int) -> Answer:
    """Join the answers of owners, which hold different keys, up to the first position where one of them ends."""
    layout = parts[0]["layout_ms"]
    if any(one["layout_ms"] != layout for one in parts):
        raise UnavailableError("the views of this region's owners store their rows in different orders")
    told = min((one["next"] for one in parts if one["next"] is not None), key=place_in, default=None)
    end = None if told is None else place_in(told)
    rows = sorted((storage_key(Window(*row[:3]), layout), row) for one in parts for row in one["rows"])
    kept = [(place, row) for place, row in rows if end is None or place <= end]
    if len(kept) > limit:
        kept = kept[:limit]
        told = cursor_at(kept[-1][0], layout)
    return {**of_owners(parts), "rows": [row for _, row in kept], "next": told}


def of_owners(parts: list[Answer]) -> Answer:
    """Return the facts that a merge needs about the region, from its owners' parts."""
    lineages = {one["lineage"] for one in parts}
    return {
        **parts[0],
        "lineage": lineages.pop() if len(lineages) == 1 else None,
        "sources": _grouped(source for one in parts for source in sources_in(one)),
        "complete_above_ms": max(one["complete_above_ms"] for one in parts),
        "watermark_ms": min(one["watermark_ms"] for one in parts),
        "milestones": [milestone for one in parts for milestone in one["milestones"]],
    }


def cursor_at(place: bytes, layout_ms: int) -> str:
    """Return the cursor after a storage key, for views of this layout."""
    return base64.urlsafe_b64encode(layout_ms.to_bytes(MARK_BYTES, "big") + place).decode()


def place_in(cursor: str) -> bytes:
    """Return the storage key of a cursor. Raises ValueError or TypeError for an invalid one."""
    place = base64.b64decode(cursor, altchars=b"-_", validate=True)[MARK_BYTES:]
    if not place:
        raise ValueError("a cursor without a storage key")
    return place


def unpacked(row: list[Any]) -> Stored:
    """Return a row of such an answer. Raises ValueError, TypeError or LookupError for an invalid one."""
    key, start_ms, end_ms, value = row
    return Window(str(key), int(start_ms), int(end_ms)), base64.b64decode(value)


def sources_in(answer: Answer) -> frozenset[Source]:
    """Return the sources that such an answer's state counts. Raises as `unpacked`."""
    return frozenset(
        Source(str(region), str(topic), int(number))
        for region, topic, numbers in answer["sources"]
        for number in numbers
    )


def _grouped(sources: Iterable[Source]) -> list[list[Any]]:
    of: dict[tuple[str, str], list[int]] = {}
    for region, topic, partition in sorted(set(sources)):
        of.setdefault((region, topic), []).append(partition)
    return [[*name, numbers] for name, numbers in of.items()]


def packed(rows: list[Stored]) -> list[list[Any]]:
    return [[*window, base64.b64encode(value).decode()] for window, value in rows]
