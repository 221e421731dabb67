"""Reads by the owners of the rows: this rehydrator's own view, or the peers that hold them.

A read of one owner's rows passes a peer's answer on as it is. A read of several owners' rows goes to all of them
at once; their answers are joined, and the first refusal, if any, is the answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel

from cutwater.rehydrator.cluster.peers import Holders
from cutwater.rehydrator.http_api.context import RouteContext, patience, render
from cutwater.rehydrator.http_api.keys_body import Keys, span_of
from cutwater.rehydrator.http_api.sets_body import RowSet, Sets

Answer = dict[str, Any]
Share = TypeVar("Share", bound=BaseModel)
Span = tuple[int | None, int | None]


class Wait(NamedTuple):
    """The token that a request waits for, and how long."""

    at_least: str | None
    wait_ms: int
    more_s: float = 0.0
    """Additional time for a peer's answer."""

    @property
    def peer_s(self) -> float:
        return patience(self.at_least, self.wait_ms) + self.more_s


class Owners:
    """The owners of one view's rows."""

    def __init__(self, context: RouteContext) -> None:
        self._context = context
        self._peers = context.peers

    async def of_key(
        self, request: Request, key: str, path: str, wait: Wait, read: Callable[[], Answer]
    ) -> Response:
        """Return the answer of the key's owner. `path`: of the same request at a peer. `read`: makes the answer if
        this rehydrator is the owner."""
        self._context.require(key)
        self._peers.require_agreed(request)
        return await self.of_part(request, self._peers.of_key(key), path, wait, read)

    async def of_part(
        self, request: Request, holders: Holders, path: str, wait: Wait, read: Callable[[], Answer]
    ) -> Response:
        """Return the answer of one of a part's holders. `read`: as for `of_key`."""
        if answer := await self._elsewhere(request, holders, path, wait):
            return answer
        return await run_in_threadpool(render, read)

    async def of_keys(
        self,
        request: Request,
        asked: Keys,
        path: str,
        wait: Wait,
        read: Callable[[Keys, Span], Answer],
        join: Callable[[list[Answer]], Answer],
    ) -> Response:
        """Return the joined answers of the keys' owners, each with an equal part of the rows.

        `read`: makes this owner's answer for its keys. Owners for whom no row is left are skipped.
        """
        span = span_of(asked)
        self._context.require(*asked.keys)
        self._peers.require_agreed(request)
        shares: dict[Holders, list[str]] = {}
        for key in dict.fromkeys(asked.keys):
            shares.setdefault(self._peers.of_key(key), []).append(key)
        now = list(islice(shares.items(), asked.rows))
        rows = asked.rows // len(now)
        bodies = {holders: asked.model_copy(update={"keys": keys, "rows": rows}) for holders, keys in now}
        return await self._of_shares(request, bodies, path, wait, lambda share: read(share, span), join)

    async def of_sets(
        self,
        request: Request,
        asked: Sets,
        path: str,
        wait: Wait,
        read: Callable[[Sets], Answer],
        join: Callable[[list[Answer]], Answer],
    ) -> Response:
        """Return the joined answers of the owners of the sets. `read`: makes this owner's answer for its sets."""
        self._context.require(*(one.key for one in asked.every))
        self._peers.require_agreed(request)
        shares: dict[Holders, list[RowSet]] = {}
        for one in asked.every:
            shares.setdefault(self._peers.of_key(one.key), []).append(one)
        bodies = {holders: asked.share(sets) for holders, sets in shares.items()}
        return await self._of_shares(request, bodies, path, wait, read, join)

    async def _of_shares(
        self,
        request: Request,
        shares: dict[Holders, Share],
        path: str,
        wait: Wait,
        read: Callable[[Share], Answer],
        join: Callable[[list[Answer]], Answer],
    ) -> Response:
        """Return the joined answers of the owners, each for its share of the body."""

        async def of(holders: Holders, share: Share) -> Answer | Response:
            body = share.model_dump_json(by_alias=True).encode()
            if answer := await self._elsewhere(request, holders, path, wait, body):
                return answer
            return await run_in_threadpool(read, share)

        return await _join((of(*one) for one in shares.items()), join)

    async def of_every_part(
        self,
        request: Request,
        path: str,
        wait: Wait,
        read: Callable[[], Awaitable[Answer]],
        join: Callable[[list[Answer]], Answer],
    ) -> Response:
        """Return the joined answers of all parts' holders. `read`: makes this one's answer."""

        async def of(holders: Holders) -> Answer | Response:
            return await self._elsewhere(request, holders, path, wait) or await read()

        return await _join(map(of, self._peers.parts(request)), join)

    async def _elsewhere(
        self, request: Request, holders: Holders, path: str, wait: Wait, body: bytes | None = None
    ) -> Response | None:
        """Return another's answer: a peer's, or the next generation's. None: this view is to answer, and is at the
        token."""
        if answer := await self._peers.ask_holders(holders, path, request, wait.peer_s, body):
            return answer
        return await self._context.wait_for_token(request, wait.at_least, wait.wait_ms)


async def _join(asked: Iterable[Awaitable[Answer | Response]], join: Callable[[list[Answer]], Answer]) -> Response:
    answers = await asyncio.gather(*asked)
    refusals = (one for one in answers if isinstance(one, Response) and one.status_code != 200)
    if refusal := next(refusals, None):
        return refusal

    def read() -> Answer:
        return join([json.loads(bytes(one.body)) if isinstance(one, Response) else one for one in answers])

    return await run_in_threadpool(render, read)
