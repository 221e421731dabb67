"""Rehydrators that share a job's partitions: who holds a key, and the question passed on to whoever does."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from urllib.parse import quote

import httpx
from fastapi import HTTPException, Request, Response

from cutwater.adapters.hashing import key_hash
from cutwater.core.errors import UnavailableError
from cutwater.core.shards import ShardMap
from cutwater.core.sharing import Partitions, held_by, owners
from cutwater.rehydrator.metrics import Metrics

PASSED_ON = "cutwater-passed-on"
"""Header of a question that another rehydrator passed on: it is passed on once only."""
CONNECT_S = 2.0
ANSWER_S = 60.0
"""Longer than the longest wait that a question may ask for."""
CONNECTIONS_MAX = 512
"""As many as ask us: questions may wait for a milestone."""
ANSWER_BYTES_MAX = 64 << 20
AGREED_BYTES = 4
_COMPARE = "compare CUTWATER_PEERS of the peers"

Holders = tuple[str, ...]
"""Who holds a part."""


class Peers:
    """All rehydrators of a job, this one included."""

    def __init__(self, shards: ShardMap, peers: Sequence[str], own: str, token: str, metrics: Metrics) -> None:
        """`peers`: their URLs, in any order, and `own` as it stands among them; none where it holds everything.

        Raises UsageError where they cannot share.
        """
        self._shards = shards
        self._own = own
        self._owners = owners(peers, shards.partitions) if peers else ()
        self._names = tuple(sorted(set(self._owners)))
        self.agreed = hashlib.sha256("\n".join(self._owners).encode()).digest()[:AGREED_BYTES]
        """A mark of who holds what: questions and cursors of another division are refused."""
        self.partitions: Partitions | None = held_by(self._own, self._owners) if peers else None
        """Those that this one holds; None for all."""
        self._metrics = metrics
        self._headers = {PASSED_ON: self.agreed.hex()} | ({"authorization": f"Bearer {token}"} if token else {})
        self._clients: dict[str, httpx.AsyncClient] = {}

    @staticmethod
    def none(metrics: Metrics) -> Peers:
        """Of a rehydrator that holds everything."""
        return Peers(ShardMap(), (), "", "", metrics)

    def of_key(self, key: str) -> Holders:
        """Who holds a key; nobody is named where this one holds everything by itself."""
        if not self._owners:
            return ()
        return (self._owners[self._shards.partition(self._shards.shard(key_hash(key)))],)

    def at(self, place: int) -> Holders:
        """Whose turn it is in a scan. 400 where there are not so many."""
        if not self._names and not place:
            return ()
        if place >= len(self._names):
            raise HTTPException(400, "after: this cursor is of other peers than there are now: begin anew")
        return (self._names[place],)

    def turn(self, place: int, shards: range | None) -> int | None:
        """The first place in a scan, from this one on, that holds any of these shards; None when there is none."""
        if not self._names or shards is None:
            return place if place < max(1, len(self._names)) else None
        first, last = (self._shards.partition(shard) for shard in (shards[0], shards[-1]))
        wanted = set(self._owners[first : last + 1])
        return next((at for at in range(place, len(self._names)) if self._names[at] in wanted), None)

    def parts(self, request: Request) -> list[Holders]:
        """Who holds each part of everything; of what was passed on this one's part alone."""
        if not self._names:
            return [()]
        return [(self._own,)] if self.passed_on(request) else [(name,) for name in self._names]

    @staticmethod
    def passed_on(request: Request) -> bool:
        """Does another rehydrator ask, for somebody else?"""
        return PASSED_ON in request.headers

    def require_agreed(self, request: Request) -> None:
        """421 where a peer passes on a question by another division of the partitions than ours."""
        if request.headers.get(PASSED_ON, self.agreed.hex()) != self.agreed.hex():
            raise HTTPException(421, f"{self._own} divides the partitions otherwise: {_COMPARE}")

    async def elsewhere(
        self, holders: Holders, path: str, request: Request, body: bytes | None = None
    ) -> Response | None:
        """The answer of whoever holds what is asked for; None where this one is to answer.

        Of the request only the query is taken over; with a body it is posted. 421 where the question was passed on
        already: it is passed on once only. Raises UnavailableError when the peer does not answer, or too much.
        """
        if not holders or self._own in holders:
            return None
        if self.passed_on(request):
            raise HTTPException(421, f"{self._own} holds other partitions: {_COMPARE}")
        return await self._ask(holders[0], f"{path}?{request.url.query}", body)

    async def _ask(self, peer: str, path: str, body: bytes | None) -> Response:
        self._metrics.passed_on.inc()
        method, headers = ("GET", {}) if body is None else ("POST", {"content-type": "application/json"})
        asking = self._client(peer).stream(method, f"{peer}{path}", content=body, headers=headers)
        try:
            # Over everything: a peer that sends a byte now and then must not hold a connection for ever.
            async with asyncio.timeout(ANSWER_S), asking as answer:
                kind = answer.headers.get("content-type")
                return Response(await _body(answer), answer.status_code, media_type=kind)
        except (httpx.HTTPError, TimeoutError) as error:
            self._metrics.peer_failures.inc()
            raise UnavailableError(
                f"{peer}, which holds this part, does not answer ({type(error).__name__}); see its log"
            ) from None

    def _client(self, peer: str) -> httpx.AsyncClient:
        """One each: a peer that hangs must not take the connections to the others."""
        if peer not in self._clients:
            self._clients[peer] = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S, pool=CONNECT_S),
                limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
                trust_env=False,  # peers are neighbours: no proxy stands between them
            )
        return self._clients[peer]


async def _body(answer: httpx.Response) -> bytes:
    found = bytearray()
    async for piece in answer.aiter_bytes():
        found += piece
        if len(found) > ANSWER_BYTES_MAX:
            raise UnavailableError(f"{answer.url.host} answers with too many bytes: ask for fewer rows at a time")
    return bytes(found)


def path_of(key: str) -> str:
    """The path of a key's rows. Dots are escaped: a client takes `..` for the folder above."""
    return f"/v1/state/{quote(key, safe='').replace('.', '%2E')}"
