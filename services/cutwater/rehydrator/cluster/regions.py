"""The rehydrators of all regions, for the global view: sends requests to them, and explains missing answers."""

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
from cutwater.adapters.http.client_options import trust_of
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.query.peer_placement import Silences
from cutwater.rehydrator.cluster.admission import ASK_S, Admission, Crowded, MemoryReservation
from cutwater.rehydrator.cluster.peers import ANSWER_BYTES_MAX, CONNECT_S, CONNECTIONS_MAX, PATIENCE_S
from cutwater.rehydrator.metrics.metrics import Metrics

_REFUSED = frozenset({400, 410, 412, 422})
"""Passed to the client unchanged: these are about the request. Other failures are the region's."""
_REASON_CHARS = 300
_NUMBER_CHARS = 15

Query = list[tuple[str, str | int | float | bool | None]]
Answer = dict[str, Any]


class Regions:
    """The regions of one rehydrator: its own, called within the process, and the others, by URL."""

    def __init__(self, own: str, apis: Mapping[str, tuple[Api, ...]], token: str, metrics: Metrics) -> None:
        """`own`: the region whose state this rehydrator shows; `apis` may contain it. `token`: this rehydrator's
        own API token. Raises UsageError for certificates that cannot be read.
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
        room: MemoryReservation,
        body: bytes | None = None,
    ) -> Answer | Response | str:
        """Return a region's answer, its refusal of the request, or the reason why there is none.

        `app`: answers for the own region. `wait_s`: how long the request itself may wait. `room`: memory for the
        answer; raises Crowded if it is full. Several URLs of a region are tried in turn, those without a recent
        answer last. With `body` it is posted.
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
                found = await self._understood(room, status, said)  # this wait is not the region's
            except Crowded:
                raise
            except (httpx.HTTPError, CutwaterError, TimeoutError) as error:
                found = str(error) if isinstance(error, CutwaterError) else f"no answer ({type(error).__name__})"
            if not isinstance(found, str):
                self._silences.record_answer(api.url)
                return found
            self._metrics.region_failures.inc()
            self._silences.record_silence(api.url, time.monotonic())
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
        self, client: httpx.AsyncClient, url: str, query: Query, room: MemoryReservation, body: bytes | None
    ) -> tuple[int, bytes]:
        method, headers = ("GET", {}) if body is None else ("POST", {"content-type": "application/json"})
        params = httpx.QueryParams(query)
        async with client.stream(method, url, params=params, content=body, headers=headers) as answer:
            return answer.status_code, await _body(answer, room)

    async def _understood(self, room: MemoryReservation, status: int, body: bytes) -> Answer | Response | str:
        if status in _REFUSED:
            return Response(body, status, media_type="application/json")
        found = await self.admission.work(room, _parsed, body)
        if not isinstance(found, dict):
            return f"status {status}, and the body is not from a rehydrator"
        if status != 200:
            return f"status {status}: {str(found.get('detail'))[:_REASON_CHARS]}"
        return found

    def _client(self, api: Api, app: FastAPI) -> httpx.AsyncClient:
        """One client per URL: a region that hangs must not use up other connections, nor get other tokens."""
        if api not in self._clients:
            within = httpx.ASGITransport(app, raise_app_exceptions=False)
            self._clients[api] = httpx.AsyncClient(
                base_url=api.url or "http://own",
                # Uncompressed: the size after decompression would have no limit.
                headers={"accept-encoding": "identity"}
                | ({"authorization": f"Bearer {api.token}"} if api.token else {}),
                timeout=httpx.Timeout(None, connect=CONNECT_S, pool=CONNECT_S),  # the caller limits the total
                limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
                transport=None if api.url else within,
                verify=trust_of(api.url, self._trusted.get(api.ca_file, True)),
                trust_env=False,
            )
        return self._clients[api]


def _trusted(ca_file: str) -> ssl.SSLContext | bool:
    if not ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # SSLError is an OSError
        why = error.strerror or error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise UsageError(f"CUTWATER_REGION_CA_FILES: {ca_file} cannot be read as certificates: {why}") from None


async def _body(answer: httpx.Response, room: MemoryReservation) -> bytes:
    """Read the body. Raises UnavailableError if it is too large or compressed; Crowded if it does not fit."""
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise UnavailableError("the answer is compressed, and is not unpacked: is there a proxy in between?")
    announced = answer.headers.get("content-length", "")
    taken = int(announced) if announced.isdecimal() and len(announced) < _NUMBER_CHARS else 0
    _require_small(taken)
    room.take(taken)  # reserved at once: part of an answer is useless, and would block other queries
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
        raise UnavailableError(f"it answers with more than {ANSWER_BYTES_MAX:,} bytes: request fewer rows")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
