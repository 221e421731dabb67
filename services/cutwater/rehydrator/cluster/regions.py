"""The rehydrators of all regions, for global answers: who is asked about each, and why one does not answer."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Mapping
from typing import Any

import httpx
from fastapi import FastAPI, Response

from cutwater.adapters.config.rehydrator_urls import Api
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.query.peer_placement import Silences
from cutwater.rehydrator.cluster.admission import ASK_S, Admission, Crowded, Room
from cutwater.rehydrator.cluster.peers import ANSWER_BYTES_MAX, CONNECT_S, CONNECTIONS_MAX, PATIENCE_S
from cutwater.rehydrator.metrics.metrics import Metrics

_REFUSED = frozenset({400, 410, 412, 422})
"""What the asker is told as it is: it is about the question. All other failures are the region's."""
_REASON_CHARS = 300
_NUMBER_CHARS = 15

Query = list[tuple[str, str | int | float | bool | None]]
Answer = dict[str, Any]


class Regions:
    """Of one rehydrator: its own region, which it asks within the process, and the others, by their URLs."""

    def __init__(self, own: str, apis: Mapping[str, tuple[Api, ...]], token: str, metrics: Metrics) -> None:
        """`own`: the region whose state this rehydrator shows; its own URL may stand among the others.

        `token`: what this rehydrator itself asks for; empty for none. Raises UsageError for certificates that
        cannot be read.
        """
        self.own = own
        self.names = sorted({own, *apis})
        self.admission = Admission(metrics)
        self._apis = {name: of for name, of in apis.items() if name != own}
        self._here = Api("", token)
        self._trusted = {one.ca_file: _trusted(one.ca_file) for of in self._apis.values() for one in of}
        self._metrics = metrics
        self._silences = Silences()
        self._clients: dict[Api, httpx.AsyncClient] = {}

    async def ask(
        self,
        app: FastAPI,
        region: str,
        path: str,
        query: Query,
        wait_s: float,
        room: Room,
        body: bytes | None = None,
    ) -> Answer | Response | str:
        """The answer of a region; a refusal of the question; or in words why there is none.

        `app`: what answers for the own region. `wait_s`: how long the question itself may wait. `room`: for what
        comes; raises Crowded where there is none. Where a region has several URLs they are asked in turn, those
        last that gave no answer lately. With a `body` it is posted.
        """
        reasons = []
        until_s = time.monotonic() + wait_s + ASK_S
        for api in self._in_turn(region):
            left_s = min(wait_s + PATIENCE_S, until_s - time.monotonic())
            if left_s <= 0:
                break
            self._metrics.region_questions.inc()
            try:
                async with asyncio.timeout(left_s):
                    status, said = await self._ask(self._client(api, app), api.url + path, query, room, body)
                found = await self._understood(room, status, said)  # its turn for that is not the region's time
            except Crowded:
                raise
            except (httpx.HTTPError, CutwaterError, TimeoutError) as error:
                found = str(error) if isinstance(error, CutwaterError) else f"no answer ({type(error).__name__})"
            if not isinstance(found, str):
                self._silences.answered(api.url)
                return found
            self._metrics.region_failures.inc()
            self._silences.silent(api.url, time.monotonic())
            reasons.append(f"{api.url or 'this rehydrator'}: {found}")
        return "; ".join(reasons)

    def _in_turn(self, region: str) -> list[Api]:
        """The own region has no URL."""
        if region == self.own:
            return [self._here]
        now_s = time.monotonic()
        here = [one for one in self._apis[region] if self._silences.may_ask(one.url, now_s)]
        return [*here, *(one for one in self._apis[region] if one not in here)]

    async def _ask(
        self, client: httpx.AsyncClient, url: str, query: Query, room: Room, body: bytes | None
    ) -> tuple[int, bytes]:
        method, headers = ("GET", {}) if body is None else ("POST", {"content-type": "application/json"})
        params = httpx.QueryParams(query)
        async with client.stream(method, url, params=params, content=body, headers=headers) as answer:
            return answer.status_code, await _body(answer, room)

    async def _understood(self, room: Room, status: int, body: bytes) -> Answer | Response | str:
        if status in _REFUSED:
            return Response(body, status, media_type="application/json")
        found = await self.admission.work(room, _parsed, body)
        if not isinstance(found, dict):
            return f"status {status}, and no answer of a rehydrator"
        if status != 200:
            return f"status {status}: {str(found.get('detail'))[:_REASON_CHARS]}"
        return found

    def _client(self, api: Api, app: FastAPI) -> httpx.AsyncClient:
        """One each: a region that hangs must not take the connections to the others, nor hear their tokens."""
        if api not in self._clients:
            within = httpx.ASGITransport(app, raise_app_exceptions=False)
            self._clients[api] = httpx.AsyncClient(
                base_url=api.url or "http://own",
                # Plain bytes: what a few of them unpack to would have no bound.
                headers={"accept-encoding": "identity"}
                | ({"authorization": f"Bearer {api.token}"} if api.token else {}),
                timeout=httpx.Timeout(None, connect=CONNECT_S, pool=CONNECT_S),  # all of it has a bound already
                limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
                transport=None if api.url else within,
                verify=self._trusted.get(api.ca_file, True),
                trust_env=False,
            )
        return self._clients[api]


def _trusted(ca_file: str) -> ssl.SSLContext | bool:
    """What a server's certificate is held to."""
    if not ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # SSLError is one
        why = error.strerror or error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise UsageError(f"CUTWATER_REGION_CA_FILES: {ca_file} cannot be read as certificates: {why}") from None


async def _body(answer: httpx.Response, room: Room) -> bytes:
    """All of it. Raises UnavailableError where that is too much, or packed; Crowded where there is no room."""
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise UnavailableError("the answer is packed, and plain bytes were asked for: is there a proxy between?")
    announced = answer.headers.get("content-length", "")
    taken = int(announced) if announced.isdecimal() and len(announced) < _NUMBER_CHARS else 0
    _require_small(taken)
    room.take(taken)  # all at once: half an answer is of no use, and would only keep others from theirs
    found = bytearray()
    async for piece in answer.aiter_raw():
        more = max(0, len(found) + len(piece) - taken)
        _require_small(taken + more)
        room.take(more)
        taken += more
        found += piece
    return bytes(found)


def _require_small(count: int) -> None:
    if count > ANSWER_BYTES_MAX:
        raise UnavailableError(
            f"it answers with more than {ANSWER_BYTES_MAX:,} bytes: ask for fewer rows at a time"
        )


def _parsed(body: bytes) -> Any:
    """None for what is no JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
