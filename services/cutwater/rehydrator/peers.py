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

    def elsewhere(self, key: str) -> str | None:
        """Who holds a key, where it is not this one."""
        if not self._owners:
            return None
        owner = self._owners[self._shards.partition(self._shards.shard(key_hash(key)))]
        return None if owner == self._own else owner

    def at(self, place: int) -> str | None:
        """Whose turn it is in a scan, where it is not this one's. 400 where there are not so many."""
        if not self._names and not place:
            return None
        if place >= len(self._names):
            raise HTTPException(400, "after: this cursor is of other peers than there are now: begin anew")
        return None if self._names[place] == self._own else self._names[place]

    def require_agreed(self, request: Request) -> None:
        """421 where a peer passes on a question by another division of the partitions than ours."""
        if request.headers.get(PASSED_ON, self.agreed.hex()) != self.agreed.hex():
            raise HTTPException(421, f"{self._own} divides the partitions otherwise: {_COMPARE}")

    def follows(self, place: int) -> bool:
        """Does a scan go on with another peer after this one?"""
        return place + 1 < len(self._names)

    async def pass_on(self, peer: str, path: str, request: Request) -> Response:
        """The answer of the peer that holds what is asked for; of the request only the query is taken over.

        421 where the question was passed on already: it is passed on once only. Raises UnavailableError when the
        peer does not answer, or with too much.
        """
        if PASSED_ON in request.headers:
            raise HTTPException(421, f"{self._own} holds other partitions: {_COMPARE}")
        self._metrics.passed_on.inc()
        url = f"{peer}{path}?{request.url.query}"
        try:
            # Over everything: a peer that sends a byte now and then must not hold a connection for ever.
            async with asyncio.timeout(ANSWER_S), self._client(peer).stream("GET", url) as answer:
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
