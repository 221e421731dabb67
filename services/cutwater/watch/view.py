"""The view's position, which stands on no topic: asked of the rehydrator's HTTP API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import httpx

from cutwater.core.errors import UsageError
from cutwater.core.generations import Token

ANSWER_S = 2.0


class View:
    """The rehydrators of a job, asked now and then."""

    def __init__(self, urls: Iterable[str], headers: Mapping[str, str]) -> None:
        self._clients = [httpx.AsyncClient(base_url=url, headers=dict(headers), timeout=ANSWER_S) for url in urls]

    async def sequence(self) -> int:
        """Of the oldest milestone shown; 0 where one shows none, does not answer or answers something else."""
        return min(await asyncio.gather(*map(_sequence, self._clients)))

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()


async def _sequence(client: httpx.AsyncClient) -> int:
    try:
        answer = await client.get("/v1/milestone")
        return Token.parse(str(answer.json()["token"])).sequence
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, UsageError):
        return 0
