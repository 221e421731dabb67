"""The route of several keys' rows as they are stored, for whoever merges the rows of several regions."""

from __future__ import annotations

import asyncio
import json
from itertools import islice

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool

from cutwater.rehydrator.answering import Answering, patience, rendered
from cutwater.rehydrator.asked import Keys, span_of
from cutwater.rehydrator.parameters import WAIT_MS_DEFAULT, AtLeast, WaitMs
from cutwater.rehydrator.peers import Holders
from cutwater.rehydrator.stored import Answer, about, of_owners, packed


class StoredKeys:
    """The region's part of a global answer for several keys: of each owner at one milestone."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._peers = answering.peers

    async def keys(
        self, request: Request, asked: Keys, at_least: AtLeast = None, wait_ms: WaitMs = WAIT_MS_DEFAULT
    ) -> Response:
        """The windows of several keys as they are stored, for the global view of another rehydrator."""
        span = span_of(asked)
        self._answering.require(*asked.keys)
        self._peers.require_agreed(request)
        shares: dict[Holders, list[str]] = {}
        for key in dict.fromkeys(asked.keys):
            shares.setdefault(self._peers.of_key(key), []).append(key)
        now = list(islice(shares.items(), asked.rows))
        rows, wait_s = asked.rows // len(now), patience(at_least, wait_ms)

        async def of(holders: Holders, keys: list[str]) -> Answer | Response:
            share = asked.model_copy(update={"keys": keys, "rows": rows})
            body = share.model_dump_json(by_alias=True).encode()
            if answer := await self._peers.elsewhere(holders, "/v1/stored-keys", request, wait_s, body):
                return answer
            await self._answering.reach(at_least, wait_ms)
            return await run_in_threadpool(self._several, share, span)

        answers = await asyncio.gather(*(of(holders, keys) for holders, keys in now))
        refusals = (one for one in answers if isinstance(one, Response) and one.status_code != 200)
        if refusal := next(refusals, None):
            return refusal

        def join() -> Answer:
            parts = [json.loads(bytes(one.body)) if isinstance(one, Response) else one for one in answers]
            return {**of_owners(parts), "keys": [one for part in parts for one in part["keys"]]}

        return await run_in_threadpool(rendered, join)

    def _several(self, asked: Keys, span: tuple[int | None, int | None]) -> Answer:
        page = self._answering.view.read_stored_several(asked.keys, *span, asked.limit, asked.rows)
        keys = [{"key": one.key, "rows": packed(one.rows), "next_from_ms": one.next_from_ms} for one in page.pages]
        return {**about(self._answering, page.milestone), "keys": keys}
