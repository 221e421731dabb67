"""Routes about the whole state of this rehydrator: export, snapshot and sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException
from fastapi.responses import JSONResponse

from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.generation import Token
from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.http_api.streaming import LINES, Export, Exports, blocks, lines
from cutwater.views.query.row_blocks import MEDIA_TYPE

SNAPSHOT_S = 10.0
"""How long a request waits for a checkpoint."""


class Snapshot(NamedTuple):
    """Takes snapshots of the view."""

    take: Callable[[float], Token]
    """Takes a snapshot within the given seconds."""
    share: str
    """The share under which the store holds them."""


Sizes = Callable[[], dict[str, Any]]


class ExportRoutes:
    """The state of this rehydrator as a whole."""

    def __init__(
        self, context: RouteContext, exports: Exports, snapshot: Snapshot | None, sizes: Sizes | None
    ) -> None:
        """`snapshot`: None if none are taken. `sizes`: the last census."""
        self._context = context
        self._snapshot = snapshot
        self._sizes = sizes
        self._exports = exports

    async def export(self, request: Request) -> Response:
        """Every row at one milestone, as lines of JSON.

        The first line has the milestone, the partitions that this rehydrator holds and the selection of a replica
        (each null for all), and whether it is a replica. Then each row follows, its value in base64 as in the
        changelog. The last line is `{"rows": …}`; without it the answer was cut short. If `Accept` is
        `application/vnd.cutwater.rows`, blocks of bytes follow the first line, which take a tenth of the time.
        """
        with self._exports.admitted():
            milestone, pieces = await run_in_threadpool(self._context.view.pieces)
            head = {
                "milestone": self._context.milestone(milestone),
                "partitions": self._context.partitions,
                "selection": self._context.selection,
                "replica": self._context.replica is not None,
            }
            if request.headers.get("accept") == MEDIA_TYPE:
                return Export(blocks(head, pieces), MEDIA_TYPE, self._exports)
            return Export(lines(head, pieces), LINES, self._exports)

    async def snapshot(self) -> Response:
        """Take a snapshot of this rehydrator's view now. The answer names its milestone.

        The upload continues after the answer: `cutwater snapshots list` shows when it is complete.
        """
        if self._snapshot is None:
            raise HTTPException(409, f"this rehydrator takes no snapshots: {self._instead()}")
        token = await run_in_threadpool(self._snapshot.take, SNAPSHOT_S)
        told = {"token": str(token), "sequence": token.sequence, "share": self._snapshot.share}
        return JSONResponse(told, 202)

    def _instead(self) -> str:
        context = self._context
        if context.role == "standby":
            return f"ask its owner, {context.peers.owner}"
        replica = context.replica
        if replica is not None and not (replica.origin and replica.row_selection is None):
            return "it is a read-only replica"
        return "set CUTWATER_SNAPSHOTS"

    async def sizes(self) -> Response:
        """The size of this rehydrator's state in the last census: in total, by time segment, by shard.

        Bytes are those of keys and values, before compression. Each of the largest keys may hold up to
        `largest_keys_error_bytes` more than shown; with up to 4,000 keys that is 0.
        """
        sizes = self._sizes
        if sizes is None:
            raise UnavailableError("this rehydrator takes no census")
        # A job may have 65,536 shards: rendered beside the requests of others.
        return await run_in_threadpool(lambda: JSONResponse(sizes()))
