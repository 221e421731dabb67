"""Rehydrators that share a job's partitions: finds the holders of a key, and passes requests on to them."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping

import httpx
from fastapi import HTTPException, Request, Response

from cutwater.adapters.hashing import key_hash
from cutwater.adapters.http.client_options import trust_of
from cutwater.core.errors import UnavailableError
from cutwater.core.job.shards import ShardMap
from cutwater.core.query.peer_placement import Shares, Silences, held_partitions, owner_of
from cutwater.core.state.partition_share import Partitions, owners
from cutwater.rehydrator.metrics.metrics import Metrics

PASSED_ON = "cutwater-passed-on"
"""Header of a request passed on by another rehydrator; it is not passed on again."""
GENERATION = "cutwater-generation"
"""Header of the same request: the generation that the sender shows."""
ANYHOW = "cutwater-anyhow"
"""Header of a request that no holder answers with the newest milestone: any milestone will do."""
SHOWS = "cutwater-shows"
"""Header of the answer of a holder that is behind: the sequence that it shows, 0 for none."""
CONNECT_S = 2.0
ANSWER_S = 60.0
"""Longer than the longest wait that a request may ask for."""
PATIENCE_S = 5.0
"""Time for a holder's answer, beyond the request's own wait, if another holder can answer too."""
CONNECTIONS_MAX = 512
"""As many as this rehydrator accepts: requests may wait for a milestone."""
ANSWER_BYTES_MAX = 64 << 20
AGREED_BYTES = 4
_COMPARE = "compare CUTWATER_PEERS of the peers"
_NUMBER_CHARS = 20
_FAILED = 500
"""From this status on, another holder is tried."""

Holders = tuple[str, ...]
"""The holders of a part, in the order in which they are tried: its owner, then the standbys."""


class Peers:
    """All rehydrators of a job, this one included."""

    def __init__(
        self,
        shards: ShardMap,
        shares: Shares,
        own: str,
        token: str,
        metrics: Metrics,
        current: Callable[[], bool] = lambda: True,
        shows: Callable[[], int] = lambda: 0,
        generation: str = "",
    ) -> None:
        """`shares`: the owners' URLs with their standbys, in any order; empty if this one holds everything.

        `own`: this one's URL among them. `current`: whether this one shows the newest milestone that it knows.
        `shows`: the sequence of the milestone that it shows, 0 for none. `generation`: the generation that it
        shows. Raises UsageError if they cannot share the partitions.
        """
        self._shards = shards
        self._shares = shares
        self._own = own
        self._current = current
        self._shows = shows
        self._owners = owners(shares, shards.partitions) if shares else ()
        self._names = tuple(sorted(shares))
        self.agreed = hashlib.sha256("\n".join(self._owners).encode()).digest()[:AGREED_BYTES]
        """Identifies the division of partitions: requests and cursors of another division are refused."""
        self.partitions: Partitions | None = held_partitions(own, shares, shards.partitions)
        """The partitions that this one holds; None for all."""
        self.owner = owner_of(own, shares)
        """The owner of the part that this one holds."""
        self._metrics = metrics
        self._generation = generation
        # Uncompressed: the size after decompression would have no limit.
        named = {PASSED_ON: self.agreed.hex(), GENERATION: generation, "accept-encoding": "identity"}
        self._headers = named | ({"authorization": f"Bearer {token}"} if token else {})
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._silences = Silences()

    @staticmethod
    def none(metrics: Metrics) -> Peers:
        """Return the peers of a rehydrator that holds everything."""
        return Peers(ShardMap(), {}, "", "", metrics)

    @property
    def standby(self) -> bool:
        """Whether this one answers only if the owner does not."""
        return self.owner != self._own

    def of_key(self, key: str) -> Holders:
        """Return the holders of a key; none if this one holds everything."""
        if not self._owners:
            return ()
        return self._holders(self._owners[self._shards.partition(self._shards.shard(key_hash(key)))])

    def owner_elsewhere(self, key: str) -> str | None:
        """Return the owner of a key that this one does not hold."""
        holders = self.of_key(key)
        return holders[0] if holders and self._own not in holders else None

    def at(self, place: int) -> Holders:
        """Return the holders at a position of a scan. Raises 400 beyond the last."""
        if not self._names and not place:
            return ()
        if place >= len(self._names):
            raise HTTPException(400, "after: the peers have changed since this cursor was made: start again")
        return self._holders(self._names[place])

    def next_turn(self, place: int, shards: range | None) -> int | None:
        """Return the first position of a scan, from `place` on, with any of these shards; None without one."""
        if not self._names or shards is None:
            return place if place < max(1, len(self._names)) else None
        first, last = (self._shards.partition(shard) for shard in (shards[0], shards[-1]))
        wanted = set(self._owners[first : last + 1])
        return next((at for at in range(place, len(self._names)) if self._names[at] in wanted), None)

    def parts(self, request: Request) -> list[Holders]:
        """Return the holders of every part; for a request that was passed on, only of this one's part."""
        if not self._names:
            return [()]
        return [self._holders(one) for one in ((self.owner,) if self.is_passed_on(request) else self._names)]

    @staticmethod
    def is_passed_on(request: Request) -> bool:
        """Return whether another rehydrator passed this request on."""
        return PASSED_ON in request.headers

    def _holders(self, owner: str) -> Holders:
        return (owner, *self._shares[owner])

    def require_agreed(self, request: Request) -> None:
        """Raise 421 if a peer passes on a request under another division of the partitions. Raises
        UnavailableError if the peer shows another generation, which is temporary.
        """
        if request.headers.get(PASSED_ON, self.agreed.hex()) != self.agreed.hex():
            theirs = request.headers.get(GENERATION, self._generation)
            if theirs != self._generation:
                raise UnavailableError(
                    f"{self._own} shows generation {self._generation}, the asking peer shows {theirs}: the switch "
                    "is in progress, try again in a moment"
                )
            raise HTTPException(421, f"{self._own} divides the partitions differently: {_COMPARE}")

    async def ask_holders(
        self, holders: Holders, path: str, request: Request, wait_s: float, body: bytes | None = None
    ) -> Response | None:
        """Return the answer of a holder; None if this rehydrator is to answer.

        The holders are tried in order. Only the query of the request is passed on; with `body` it is posted.
        `wait_s`: how long the request itself may wait. Raises 421 if it was passed on to a rehydrator that does
        not hold the part, 503 if it was passed on, this one is behind, and other holders may be ahead. Raises
        UnavailableError if no holder answers, or an answer is too large.
        """
        answer = await self._of_others(holders, path, request, wait_s, body)
        if answer is None and self.standby:
            self._metrics.standby_answers.inc()
        return answer

    async def _of_others(
        self, holders: Holders, path: str, request: Request, wait_s: float, body: bytes | None
    ) -> Response | None:
        if self.is_passed_on(request):
            self._require_mine(holders, ANYHOW in request.headers)
            return None
        url = f"{path}?{request.url.query}"
        mine = self._own in holders or not holders
        refused: dict[str, int] = {}
        silent: dict[str, str] = {}
        turns = self._in_turn(holders)
        for holder in turns:
            if holder == self._own:
                if self._current():
                    return None
                continue
            only = not mine and holder == turns[-1]
            answer = await self._ask(holder, url, ANSWER_S if only else wait_s + PATIENCE_S, body)
            if isinstance(answer, str):
                silent[holder] = answer
            elif answer.status_code < _FAILED or len(holders) == 1:
                return answer
            else:
                refused[holder] = _shown_sequence(answer)
        if mine:
            refused = {holder: shown for holder, shown in refused.items() if shown > self._shows()}
        found = await self._anyhow(refused, silent, url, body)
        if mine:
            return None if found is None or found.status_code >= _FAILED else found
        if found is not None:
            return found
        why = ", ".join(f"{holder} ({answer})" for holder, answer in silent.items())
        raise UnavailableError(f"no rehydrator that holds this part answers: {why}; see the log there")

    async def _anyhow(
        self, refused: Mapping[str, int], silent: dict[str, str], url: str, body: bytes | None
    ) -> Response | None:
        """No holder is at the newest milestone: return the answer of the one that shows the newest."""
        found: Response | None = None
        for holder in sorted(refused, key=lambda one: -refused[one]):
            answer = await self._ask(holder, url, ANSWER_S, body, {ANYHOW: "1"})
            if isinstance(answer, str):
                silent[holder] = answer
                continue
            found = answer
            if answer.status_code < _FAILED:
                break
        return found

    def _in_turn(self, holders: Holders) -> Holders:
        """Holders that did not answer lately come last, and only if this one does not hold the part."""
        now_s = time.monotonic()
        here = [one for one in holders if one == self._own or self._silences.may_ask(one, now_s)]
        away = [one for one in holders if one not in here] if self._own not in holders else []
        return (*here, *away)

    def _require_mine(self, holders: Holders, anyhow: bool) -> None:
        """Raise 421 for a part that this one does not hold; 503 if another holder may be ahead."""
        if holders and self._own not in holders:
            raise HTTPException(421, f"{self._own} holds other partitions: {_COMPARE}")
        if len(holders) > 1 and not anyhow and not self._current():
            problem = f"{self._own} is behind; another holder of this part may be ahead"
            raise HTTPException(503, problem, {SHOWS: str(self._shows())})

    async def _ask(
        self, peer: str, path: str, answer_s: float, body: bytes | None, more: Mapping[str, str] | None = None
    ) -> Response | str:
        """Return the answer, or the error's name; a peer without an answer is skipped for a while."""
        self._metrics.passed_on.inc()
        method, headers = ("GET", {}) if body is None else ("POST", {"content-type": "application/json"})
        asking = self._client(peer).stream(method, peer + path, content=body, headers={**headers, **(more or {})})
        try:
            # A limit for the whole answer: a peer that sends a byte now and then must not hold a connection.
            async with asyncio.timeout(answer_s), asking as answer:
                kind = answer.headers.get("content-type")
                shows = {SHOWS: answer.headers[SHOWS]} if SHOWS in answer.headers else None
                found = Response(await body_of(answer), answer.status_code, shows, kind)
        except (httpx.HTTPError, TimeoutError) as error:
            self._metrics.peer_failures.inc()
            self._silences.record_silence(peer, time.monotonic())
            return type(error).__name__
        self._silences.record_answer(peer)
        return found

    def _client(self, peer: str) -> httpx.AsyncClient:
        """One client per peer: a peer that hangs must not use up the connections to the others."""
        if peer not in self._clients:
            self._clients[peer] = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S, pool=CONNECT_S),
                limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
                verify=trust_of(peer),
                trust_env=False,  # peers are neighbours, without a proxy in between
            )
        return self._clients[peer]


def _shown_sequence(answer: Response) -> int:
    """Return the sequence that a refusing peer shows; 0 if it does not say."""
    text = answer.headers.get(SHOWS, "")
    return int(text) if text.isdecimal() and len(text) < _NUMBER_CHARS else 0


async def body_of(answer: httpx.Response) -> bytes:
    """Read the body. Raises UnavailableError if it is too large, DecodingError if it is compressed."""
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise httpx.DecodingError("the answer is compressed, and is not unpacked", request=answer.request)
    found = bytearray()
    async for piece in answer.aiter_raw():
        found += piece
        if len(found) > ANSWER_BYTES_MAX:
            raise UnavailableError(f"{answer.url.host} answers with too many bytes: request fewer rows")
    return bytes(found)
