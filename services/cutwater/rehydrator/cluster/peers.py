"""Rehydrators that share a job's partitions: who holds a key, and the question passed on to whoever does."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping

import httpx
from fastapi import HTTPException, Request, Response

from cutwater.adapters.hashing import key_hash
from cutwater.core.errors import UnavailableError
from cutwater.core.job.shards import ShardMap
from cutwater.core.query.peer_placement import Shares, Silences, held, owner_of
from cutwater.core.state.partition_share import Partitions, owners
from cutwater.rehydrator.metrics.metrics import Metrics

PASSED_ON = "cutwater-passed-on"
"""Header of a question that another rehydrator passed on: it is passed on once only."""
GENERATION = "cutwater-generation"
"""Header of the same: which one the asker shows."""
ANYHOW = "cutwater-anyhow"
"""Header of one that nobody answers with the newest: what there is shall do."""
SHOWS = "cutwater-shows"
"""Header of the answer of one that is behind: the sequence that it shows, 0 for none."""
CONNECT_S = 2.0
ANSWER_S = 60.0
"""Longer than the longest wait that a question may ask for."""
PATIENCE_S = 5.0
"""How long, beyond the wait that a question asks for, one is waited for where somebody else can answer, too."""
CONNECTIONS_MAX = 512
"""As many as ask us: questions may wait for a milestone."""
ANSWER_BYTES_MAX = 64 << 20
AGREED_BYTES = 4
_COMPARE = "compare CUTWATER_PEERS of the peers"
_NUMBER_CHARS = 20
_FAILED = 500
"""From this status on an answer is none: somebody else is asked."""

Holders = tuple[str, ...]
"""Who holds a part, in the order in which they are asked: its owner, then the standbys."""


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
        """`shares`: the owners' URLs, in any order, with their standbys; none where this one holds everything.

        `own`: this one's URL, as it stands among them. `current`: can this one answer with what is newest to it?
        `shows`: the sequence of the milestone that it shows all the same, 0 for none.
        `generation`: the one that it shows.
        Raises UsageError where they cannot share.
        """
        self._shards = shards
        self._shares = shares
        self._own = own
        self._current = current
        self._shows = shows
        self._owners = owners(shares, shards.partitions) if shares else ()
        self._names = tuple(sorted(shares))
        self.agreed = hashlib.sha256("\n".join(self._owners).encode()).digest()[:AGREED_BYTES]
        """A mark of who owns what: questions and cursors of another division are refused."""
        self.partitions: Partitions | None = held(own, shares, shards.partitions)
        """Those that this one holds; None for all."""
        self.owner = owner_of(own, shares)
        """Whose part this one holds."""
        self._metrics = metrics
        self._generation = generation
        # Plain bytes: what a few of them unpack to would have no bound.
        named = {PASSED_ON: self.agreed.hex(), GENERATION: generation, "accept-encoding": "identity"}
        self._headers = named | ({"authorization": f"Bearer {token}"} if token else {})
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._silences = Silences()

    @staticmethod
    def none(metrics: Metrics) -> Peers:
        """Of a rehydrator that holds everything."""
        return Peers(ShardMap(), {}, "", "", metrics)

    @property
    def standby(self) -> bool:
        """Is this one to answer only where another one does not?"""
        return self.owner != self._own

    def of_key(self, key: str) -> Holders:
        """Who holds a key; nobody is named where this one holds everything by itself."""
        if not self._owners:
            return ()
        return self._holders(self._owners[self._shards.partition(self._shards.shard(key_hash(key)))])

    def owner_elsewhere(self, key: str) -> str | None:
        """Who owns a key that this one does not hold."""
        holders = self.of_key(key)
        return holders[0] if holders and self._own not in holders else None

    def at(self, place: int) -> Holders:
        """Whose turn it is in a scan. 400 where there are not so many."""
        if not self._names and not place:
            return ()
        if place >= len(self._names):
            raise HTTPException(400, "after: this cursor is of other peers than there are now: begin anew")
        return self._holders(self._names[place])

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
        return [self._holders(one) for one in ((self.owner,) if self.passed_on(request) else self._names)]

    @staticmethod
    def passed_on(request: Request) -> bool:
        """Does another rehydrator ask, for somebody else?"""
        return PASSED_ON in request.headers

    def _holders(self, owner: str) -> Holders:
        return (owner, *self._shares[owner])

    def require_agreed(self, request: Request) -> None:
        """421 where a peer passes on a question by another division of the partitions than ours.

        Raises UnavailableError where it shows another generation: that passes.
        """
        if request.headers.get(PASSED_ON, self.agreed.hex()) != self.agreed.hex():
            theirs = request.headers.get(GENERATION, self._generation)
            if theirs != self._generation:
                raise UnavailableError(
                    f"{self._own} shows generation {self._generation}, and the peer that asks it {theirs}: they "
                    "are changing over; ask again in a moment"
                )
            raise HTTPException(421, f"{self._own} divides the partitions otherwise: {_COMPARE}")

    async def elsewhere(
        self, holders: Holders, path: str, request: Request, wait_s: float, body: bytes | None = None
    ) -> Response | None:
        """The answer of whoever holds what is asked for; None where this one is to answer.

        They are asked in their order; of the request only the query is taken over, and with a body it is posted.
        `wait_s`: how long the question itself may wait. 421 where it was passed on to one that does not hold it.
        503 where it was passed on, this one is behind, and others may not be. Raises UnavailableError where nobody
        answers, or with too much.
        """
        answer = await self._of_others(holders, path, request, wait_s, body)
        if answer is None and self.standby:
            self._metrics.standby_answers.inc()
        return answer

    async def _of_others(
        self, holders: Holders, path: str, request: Request, wait_s: float, body: bytes | None
    ) -> Response | None:
        if self.passed_on(request):
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
                refused[holder] = _shown(answer)
        if mine:
            refused = {holder: shown for holder, shown in refused.items() if shown > self._shows()}
        found = await self._anyhow(refused, silent, url, body)
        if mine:
            return None if found is None or found.status_code >= _FAILED else found
        if found is not None:
            return found
        why = ", ".join(f"{holder} ({answer})" for holder, answer in silent.items())
        raise UnavailableError(f"who holds this part does not answer: {why}; see the log there")

    async def _anyhow(
        self, refused: Mapping[str, int], silent: dict[str, str], url: str, body: bytes | None
    ) -> Response | None:
        """Nobody is at the newest milestone: what the one that shows the newest of theirs has, or the next."""
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
        """Those that were away lately come last, and only where this one cannot answer itself."""
        now_s = time.monotonic()
        here = [one for one in holders if one == self._own or self._silences.may_ask(one, now_s)]
        away = [one for one in holders if one not in here] if self._own not in holders else []
        return (*here, *away)

    def _require_mine(self, holders: Holders, anyhow: bool) -> None:
        """421 for a part that this one does not hold; 503 where another holder may be further."""
        if holders and self._own not in holders:
            raise HTTPException(421, f"{self._own} holds other partitions: {_COMPARE}")
        if len(holders) > 1 and not anyhow and not self._current():
            problem = f"{self._own} is behind; another one that holds this part may not be"
            raise HTTPException(503, problem, {SHOWS: str(self._shows())})

    async def _ask(
        self, peer: str, path: str, answer_s: float, body: bytes | None, more: Mapping[str, str] | None = None
    ) -> Response | str:
        """The answer, or in a word why there is none; whoever gave none is left out for a while."""
        self._metrics.passed_on.inc()
        method, headers = ("GET", {}) if body is None else ("POST", {"content-type": "application/json"})
        asking = self._client(peer).stream(method, peer + path, content=body, headers={**headers, **(more or {})})
        try:
            # Over everything: a peer that sends a byte now and then must not hold a connection for ever.
            async with asyncio.timeout(answer_s), asking as answer:
                kind = answer.headers.get("content-type")
                shows = {SHOWS: answer.headers[SHOWS]} if SHOWS in answer.headers else None
                found = Response(await body_of(answer), answer.status_code, shows, kind)
        except (httpx.HTTPError, TimeoutError) as error:
            self._metrics.peer_failures.inc()
            self._silences.silent(peer, time.monotonic())
            return type(error).__name__
        self._silences.answered(peer)
        return found

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


def _shown(answer: Response) -> int:
    """The sequence that one who refuses shows; 0 where it does not say."""
    text = answer.headers.get(SHOWS, "")
    return int(text) if text.isdecimal() and len(text) < _NUMBER_CHARS else 0


async def body_of(answer: httpx.Response) -> bytes:
    """All of it; raises UnavailableError where that is too much, DecodingError where it is packed all the same."""
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise httpx.DecodingError("the answer is packed, and plain bytes were asked for", request=answer.request)
    found = bytearray()
    async for piece in answer.aiter_raw():
        found += piece
        if len(found) > ANSWER_BYTES_MAX:
            raise UnavailableError(f"{answer.url.host} answers with too many bytes: ask for fewer rows at a time")
    return bytes(found)
