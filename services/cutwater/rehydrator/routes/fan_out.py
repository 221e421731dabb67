"""A request to all owners that it concerns, this rehydrator included: sent at once, and joined or refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool

from cutwater.rehydrator.cluster.peers import Holders
from cutwater.rehydrator.http_api.context import RouteContext, patience, render
from cutwater.rehydrator.http_api.keys_body import Keys, span_of
from cutwater.rehydrator.http_api.parameters import AtLeast, WaitMs

Answer = dict[str, Any]
Span = tuple[int | None, int | None]


def of_each_owner(
    answering: RouteContext,
    request: Request,
    path: str,
    asked: Keys,
    at_least: AtLeast,
    wait_ms: WaitMs,
    here: Callable[[Keys, Span], Answer],
) -> list[Awaitable[Answer | Response]]:
    """Return the requests to the keys' owners, each with an equal part of the rows; `here` answers locally.

    Owners for whom no row is left are skipped. Raises if the request is not allowed.
    """
    peers, span = answering.peers, span_of(asked)
    answering.require(*asked.keys)
    peers.require_agreed(request)
    shares: dict[Holders, list[str]] = {}
    for key in dict.fromkeys(asked.keys):
        shares.setdefault(peers.of_key(key), []).append(key)
    now = list(islice(shares.items(), asked.rows))
    rows, wait_s = asked.rows // len(now), patience(at_least, wait_ms)

    async def of(holders: Holders, keys: list[str]) -> Answer | Response:
        share = asked.model_copy(update={"keys": keys, "rows": rows})
        body = share.model_dump_json(by_alias=True).encode()
        if answer := await peers.ask_holders(holders, path, request, wait_s, body):
            return answer
        if answer := await answering.wait_for_token(request, at_least, wait_ms):
            return answer
        return await run_in_threadpool(here, share, span)

    return [of(holders, keys) for holders, keys in now]


async def joined(
    asked: Iterable[Awaitable[Answer | Response]], join: Callable[[list[Answer]], Answer]
) -> Response:
    """Send all at once, and join the answers; the first refusal, if any, is the answer."""
    answers = await asyncio.gather(*asked)
    refusals = (one for one in answers if isinstance(one, Response) and one.status_code != 200)
    if refusal := next(refusals, None):
        return refusal

    def read() -> Answer:
        return join([json.loads(bytes(one.body)) if isinstance(one, Response) else one for one in answers])

    return await run_in_threadpool(render, read)
