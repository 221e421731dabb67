"""The view's position, which is on no topic: read from the rehydrators' HTTP API."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping

import httpx

from cutwater.adapters.http.client_options import direct_options
from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Token
from cutwater.core.query.peer_placement import Shares

ANSWER_S = 2.0


class View:
    """The rehydrators of a job, queried for their milestones."""

    def __init__(self, shares: Shares, headers: Mapping[str, str]) -> None:
        """`shares`: the owners' URLs with those of their standbys."""

        def client(url: str) -> httpx.AsyncClient:
            return httpx.AsyncClient(base_url=url, headers=dict(headers), timeout=ANSWER_S, **direct_options(url))

        self._parts = [list(map(client, (owner, *standbys))) for owner, standbys in shares.items()]

    async def sequence(self) -> int:
        """Return the sequence of the oldest share's milestone. A share counts with its newest holder. 0 if no
        holder of a share answers with a milestone."""
        return min(await asyncio.gather(*map(_newest, self._parts)))

    async def close(self) -> None:
        for client in itertools.chain(*self._parts):
            await client.aclose()


async def _newest(holders: list[httpx.AsyncClient]) -> int:
    # Readers use the furthest holder, too.
    return max(await asyncio.gather(*map(_sequence, holders)))


async def _sequence(client: httpx.AsyncClient) -> int:
    try:
        answer = await client.get("/v1/milestone")
        return Token.parse(str(answer.json()["token"])).sequence
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, UsageError):
        return 0
