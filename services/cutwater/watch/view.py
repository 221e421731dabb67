"""The view's position, which stands on no topic: asked of the rehydrator's HTTP API."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from cutwater.core.errors import UsageError
from cutwater.core.generations import Token

ANSWER_S = 2.0


class View:
    """One rehydrator, asked now and then."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._client = httpx.AsyncClient(base_url=url, headers=dict(headers), timeout=ANSWER_S)

    async def sequence(self) -> int:
        """Of the milestone shown; 0 where it shows none, does not answer or answers something else."""
        try:
            answer = await self._client.get("/v1/milestone")
            return Token.parse(str(answer.json()["token"])).sequence
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, UsageError):
            return 0

    async def close(self) -> None:
        await self._client.aclose()
