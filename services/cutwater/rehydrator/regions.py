"""The rehydrators of all regions, for global answers: who is asked about each, and why one does not answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

import httpx
from fastapi import FastAPI, Response

from cutwater.core.errors import CutwaterError
from cutwater.core.standbys import Silences
from cutwater.rehydrator.metrics import Metrics
from cutwater.rehydrator.peers import CONNECT_S, CONNECTIONS_MAX, PATIENCE_S, body_of

_REFUSED = frozenset({400, 410, 412, 422})
"""What the asker is told as it is: it is about the question. All other failures are the region's."""
_REASON_CHARS = 300

Query = list[tuple[str, str | int | float | bool | None]]
Answer = dict[str, Any]


class Regions:
    """Of one rehydrator: its own region, which it asks within the process, and the others, by their URLs."""

    def __init__(self, own: str, urls: Mapping[str, tuple[str, ...]], token: str, metrics: Metrics) -> None:
        """`own`: the region whose state this rehydrator shows; its own URL may stand among the others.

        `token`: what all regions' rehydrators ask for; empty for none.
        """
        self.own = own
        self._urls = {name: of for name, of in urls.items() if name != own}
        self.names = sorted({own, *urls})
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._metrics = metrics
        self._silences = Silences()
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def ask(
        self, app: FastAPI, region: str, path: str, query: Query, wait_s: float
    ) -> Answer | Response | str:
        """The answer of a region; a refusal of the question; or in words why there is none.

        `app`: what answers for the own region. `wait_s`: how long the question itself may wait. Where a region has
        several URLs they are asked in turn, those last that gave no answer lately.
        """
        reasons = []
        for url in self._in_turn(region):
            self._metrics.region_questions.inc()
            try:
                async with asyncio.timeout(wait_s + PATIENCE_S):
                    found = await self._ask(self._client(url, app), url + path, query)
            except (httpx.HTTPError, CutwaterError, TimeoutError) as error:
                found = str(error) if isinstance(error, CutwaterError) else f"no answer ({type(error).__name__})"
            if not isinstance(found, str):
                self._silences.answered(url)
                return found
            self._metrics.region_failures.inc()
            self._silences.silent(url, time.monotonic())
            reasons.append(f"{url or 'this rehydrator'}: {found}")
        return "; ".join(reasons)

    def _in_turn(self, region: str) -> list[str]:
        """The own region has no URL."""
        if region == self.own:
            return [""]
        now_s = time.monotonic()
        here = [url for url in self._urls[region] if self._silences.may_ask(url, now_s)]
        return [*here, *(url for url in self._urls[region] if url not in here)]

    async def _ask(self, client: httpx.AsyncClient, url: str, query: Query) -> Answer | Response | str:
        async with client.stream("GET", url, params=httpx.QueryParams(query)) as answer:
            body = await body_of(answer)
        if answer.status_code in _REFUSED:
            return Response(body, answer.status_code, media_type="application/json")
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            return f"status {answer.status_code}, and no answer of a rehydrator"
        if answer.status_code != 200:
            return f"status {answer.status_code}: {str(found.get('detail'))[:_REASON_CHARS]}"
        return found

    def _client(self, url: str, app: FastAPI) -> httpx.AsyncClient:
        """One each: a region that hangs must not take the connections to the others."""
        if url not in self._clients:
            within = httpx.ASGITransport(app, raise_app_exceptions=False)
            self._clients[url] = httpx.AsyncClient(
                base_url=url or "http://own",
                headers=self._headers,
                timeout=httpx.Timeout(None, connect=CONNECT_S, pool=CONNECT_S),  # all of it has a bound already
                limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
                transport=None if url else within,
                trust_env=False,
            )
        return self._clients[url]
