"""Routes about the whole state of this rehydrator: an export of it, a snapshot of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fastapi import Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException
from fastapi.responses import JSONResponse

from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.generation import Token
from cutwater.rehydrator.http_api.context import Answering
from cutwater.rehydrator.http_api.streaming import LINES, Export, Exports, lines

SNAPSHOT_S = 10.0
"""How long a request waits for a checkpoint to be made."""


class Snapshot(NamedTuple):
    """Who takes snapshots of the view."""

    take: Callable[[float], Token]
    """Takes one within so many seconds."""
    share: str
    """Under which name they lie in the store."""


Sizes = Callable[[], dict[str, Any]]


class Whole:
    """What this rehydrator holds, as one piece."""

    def __init__(
        self, answering: Answering, exports: Exports, snapshot: Snapshot | None, sizes: Sizes | None
    ) -> None:
        """`snapshot`: None where none are taken. `sizes`: the last census."""
        self._answering = answering
        self._snapshot = snapshot
        self._sizes = sizes
        self._exports = exports

    async def export(self) -> Response:
        """Every row at one milestone, as lines of JSON.

        First the milestone, the partitions that this rehydrator holds and the selection of a replica (each null
        for all), and whether it is a replica; then each row, its value in base64 as the changelog has it; at the
        end `{"rows": …}`, without which the answer was cut short.
        """
        with self._exports.admitted():
            milestone, rows = await run_in_threadpool(self._answering.view.stored)
            head = {
                "milestone": self._answering.milestone(milestone),
                "partitions": self._answering.partitions,
                "selection": self._answering.selection,
                "replica": self._answering.replica is not None,
            }
            return Export(lines(head, rows), LINES, self._exports)

    async def snapshot(self) -> Response:
        """Take a snapshot of this rehydrator's view now. Answers with the milestone that it is of.

        The upload goes on behind the answer: `cutwater snapshots list` shows when it is there.
        """
        if self._snapshot is None:
            raise HTTPException(409, f"this rehydrator takes no snapshots: {self._instead()}")
        token = await run_in_threadpool(self._snapshot.take, SNAPSHOT_S)
        told = {"token": str(token), "sequence": token.sequence, "share": self._snapshot.share}
        return JSONResponse(told, 202)

    def _instead(self) -> str:
        """What to do where none are taken."""
        answering = self._answering
        if answering.role == "standby":
            return f"ask its owner, {answering.peers.owner}"
        replica = answering.replica
        if replica is not None and not (replica.origin and replica.kept is None):
            return "it is a replica, which only reads"
        return "set CUTWATER_SNAPSHOTS"

    async def sizes(self) -> Response:
        """How large the state of this rehydrator is, by the last census: in total, by time segment, by shard.

        Bytes are those of keys and values, before compression. The largest keys may hold up to
        `largest_keys_error_bytes` more than is said of them; of up to 4,000 keys that is 0.
        """
        if self._sizes is None:
            raise UnavailableError("this rehydrator takes no census")
        return JSONResponse(self._sizes())
