"""The view's position and newest snapshot, which are on no topic: read from the rehydrators' HTTP API."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Mapping

import httpx

from cutwater.adapters.http.client_options import direct_options
from cutwater.core.errors import UsageError
from cutwater.core.monitoring.job_status import NewestSnapshot
from cutwater.core.protocol.generation import Token
from cutwater.core.query.peer_placement import Shares

ANSWER_S = 2.0
METRICS_BYTES_MAX = 8 << 20
_GAUGE = re.compile(
    r"^cutwater_view_(snapshot_sequence|snapshot_timestamp_seconds|state_bytes) ([0-9.e+]+)$", re.M
)


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

    async def snapshot(self) -> NewestSnapshot | None:
        """Return the newest snapshot of the share that has the oldest one; None if a share tells of none."""
        found = await asyncio.gather(*map(_newest_snapshot, self._parts))
        return None if None in found else min(one for one in found if one is not None)

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


async def _newest_snapshot(holders: list[httpx.AsyncClient]) -> NewestSnapshot | None:
    # A standby takes no snapshots, and tells of none.
    found = await asyncio.gather(*map(_snapshot, holders))
    return max((one for one in found if one is not None), default=None)


async def _snapshot(client: httpx.AsyncClient) -> NewestSnapshot | None:
    try:
        async with client.stream("GET", "/metrics") as answer:
            text = b""
            async for piece in answer.aiter_bytes():
                text += piece
                if len(text) > METRICS_BYTES_MAX:
                    return None
        found = {name: float(value) for name, value in _GAUGE.findall(text.decode())}
        created_ms = round(found["snapshot_timestamp_seconds"] * 1_000)
        return NewestSnapshot(round(found["snapshot_sequence"]), created_ms, round(found.get("state_bytes", 0)))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError):
        return None
