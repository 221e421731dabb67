"""The HTTP API: the state at one milestone, which every answer names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.generations import Generation, Token
from cutwater.core.records import Milestone
from cutwater.rehydrator import questions
from cutwater.rehydrator.access import TokenGuard
from cutwater.rehydrator.export import EXPORTS_MAX, Export
from cutwater.rehydrator.metrics import Metrics
from cutwater.rehydrator.peers import Peers, path_of
from cutwater.rehydrator.replica import Replica
from cutwater.views.rows import Row, iso
from cutwater.views.view import ScanPage, View

LIMIT_DEFAULT, LIMIT_MAX = 1_000, 10_000
WAIT_MS_DEFAULT, WAIT_MS_MAX = 5_000, 30_000
_LOOK_S = 0.01
SNAPSHOT_S = 10.0
"""How long a request waits for a checkpoint to be made."""

Snapshot = Callable[[float], Token]

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="At most this many rows.")]
From = Annotated[str | None, Query(alias="from", description="First window start: ISO 8601 or ms since 1970.")]
To = Annotated[str | None, Query(description="Window starts before this: ISO 8601 or ms since 1970.")]
AtLeast = Annotated[str | None, Query(description="Wait until the view has reached this token.")]
WaitMs = Annotated[int, Query(ge=0, le=WAIT_MS_MAX, description="How long to wait for it, ms.")]
After = Annotated[str | None, Query(description="The `next` of the page before.")]


class Api:
    """Answers from one view. `now_ms` is the clock that ages are told by."""

    def __init__(
        self,
        view: View,
        generation: Generation,
        metrics: Metrics,
        now_ms: Callable[[], int],
        peers: Peers,
        snapshot: Snapshot | None,
        replica: Replica | None,
    ) -> None:
        self._view = view
        self._replica = replica
        self._peers = peers
        self._generation = generation
        self._metrics = metrics
        self._now_ms = now_ms
        self._snapshot = snapshot
        self._exports = 0

    async def key(
        self,
        request: Request,
        key: str,
        from_: From = None,
        to: To = None,
        limit: Limit = LIMIT_DEFAULT,
        at_least: AtLeast = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
    ) -> Response:
        """The windows of one key that start in [from, to), oldest first; `next_from` when there are more."""
        first, end = questions.time_ms("from", from_), questions.time_ms("to", to)
        if self._replica:
            self._replica.require(key)
        self._peers.require_agreed(request)
        holders, wait_s = self._peers.of_key(key), wait_ms / 1000 if at_least else 0
        if answer := await self._peers.elsewhere(holders, path_of(key), request, wait_s):
            return answer
        await self._reach(at_least, wait_ms)

        def read() -> dict[str, Any]:
            page = self._view.read(key, first, end, limit)
            following = None if page.next_from_ms is None else iso(page.next_from_ms)
            told = self._replica.told(names=False) if self._replica else {}
            return {"key": key, **self._page(page.milestone, page.rows), "next_from": following, **told}

        return await run_in_threadpool(_json, read)

    async def scan(
        self,
        request: Request,
        after: After = None,
        limit: Limit = LIMIT_DEFAULT,
        at_least: AtLeast = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
    ) -> Response:
        """All rows, page by page: pass `next` as `after`. Pages may be of different milestones: compare them."""
        self._peers.require_agreed(request)
        turn, place = questions.cursor(after, self._peers.agreed)
        wait_s = wait_ms / 1000 if at_least else 0
        if answer := await self._peers.elsewhere(self._peers.at(turn), "/v1/state", request, wait_s):
            return answer
        await self._reach(at_least, wait_ms)

        def read() -> dict[str, Any]:
            page = self._scanned(place, limit)
            if page.after is None and self._peers.follows(turn):
                following = questions.cursor_text(self._peers.agreed, turn + 1, b"")
            else:
                following = questions.cursor_text(self._peers.agreed, turn, page.after)
            told = self._replica.told(names=True) if self._replica else {}
            return {**self._page(page.milestone, page.rows), "next": following, **told}

        return await run_in_threadpool(_json, read)

    def _scanned(self, place: bytes | None, limit: int) -> ScanPage:
        try:
            return self._view.scan(place, limit)
        except UsageError as error:
            raise HTTPException(400, f"after: {error}") from None

    async def export(self) -> Response:
        """Every row at one milestone, as lines of JSON.

        First the milestone, the partitions that this rehydrator holds and the selection of a replica (each null
        for all); then each row, its value in base64 as the changelog has it; at the end `{"rows": …}`, without
        which the answer was cut short.
        """
        if self._exports >= EXPORTS_MAX:
            raise UnavailableError(f"{EXPORTS_MAX} exports run already: each holds the files of its milestone")
        milestone, rows = await run_in_threadpool(self._view.stored)
        selection = self._replica.selection if self._replica else None
        head = {"milestone": self._milestone(milestone), "partitions": self._partitions, "selection": selection}
        return Export(head, rows, self._exporting)

    def _exporting(self, more: int) -> None:
        self._exports += more

    async def milestone(self, at_least: AtLeast = None, wait_ms: WaitMs = WAIT_MS_DEFAULT) -> dict[str, Any]:
        """The milestone that every answer would show now."""
        await self._reach(at_least, wait_ms)
        shown = self._view.milestone
        if shown is None:
            raise UnavailableError(self._nothing())
        return self._milestone(shown)

    async def snapshot(self) -> Response:
        """Take a snapshot of this rehydrator's view now. Answers with the milestone that it is of.

        The upload goes on behind the answer: `cutwater snapshots list` shows when it is there.
        """
        if self._snapshot is None:
            if self._replica:
                raise HTTPException(409, "this rehydrator takes no snapshots: it is a replica, which only reads")
            do = f"ask its owner, {self._peers.owner}" if self._peers.standby else "set CUTWATER_SNAPSHOTS"
            raise HTTPException(409, f"this rehydrator takes no snapshots: {do}")
        token = await run_in_threadpool(self._snapshot, SNAPSHOT_S)
        return JSONResponse({"token": str(token), "sequence": token.sequence}, 202)

    async def health(self) -> dict[str, Any]:
        """The process answers; the body says what the view is doing, and why not."""
        state, reason = self._view.status
        shown = self._view.milestone
        return {
            "status": state.value,
            "ready": self._view.ready,
            "reason": reason,
            "role": self._role,
            "milestone": self._milestone(shown) if shown else None,
            "partitions": self._partitions,
            "selection": self._replica.outline if self._replica else None,
        }

    @property
    def _role(self) -> str:
        return "replica" if self._replica else "standby" if self._peers.standby else "owner"

    @property
    def _partitions(self) -> list[int] | None:
        if self._replica:
            return self._replica.partitions
        return None if self._peers.partitions is None else sorted(self._peers.partitions)

    async def ready(self) -> Response:
        """200 while a milestone is shown and followed, else 503."""
        return JSONResponse(await self.health(), 200 if self._view.ready else 503)

    async def metrics(self) -> Response:
        """Prometheus' text format."""
        return Response(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def _reach(self, at_least: str | None, wait_ms: int) -> None:
        """Return once the view is at the token; 412 after the wait, with the milestone that is shown instead."""
        sequence = questions.token(at_least, self._generation)
        if sequence is None:
            return
        deadline = time.monotonic() + wait_ms / 1000
        with self._metrics.waiting.track_inprogress():
            while (shown := self._view.milestone) is None or shown.sequence < sequence:
                if time.monotonic() >= deadline:
                    break
                await asyncio.sleep(_LOOK_S)
            else:
                return
        if shown is None:
            raise UnavailableError(self._nothing())
        problem = f"the view is at {shown.token}, and {at_least} was not reached within {wait_ms} ms"
        raise HTTPException(412, {"error": problem, "milestone": self._milestone(shown)})

    def _nothing(self) -> str:
        state, reason = self._view.status
        return f"no milestone can be shown yet: {reason or state.value}"

    def _page(self, milestone: Milestone, rows: list[Row]) -> dict[str, Any]:
        return {"milestone": self._milestone(milestone), "rows": [_shown(row) for row in rows]}

    def _milestone(self, shown: Milestone) -> dict[str, Any]:
        return {
            "token": str(shown.token),
            "standby": self._peers.standby,
            "sequence": shown.sequence,
            "generation": str(shown.generation),
            "epoch": shown.epoch,
            "watermark": iso(shown.watermark_ms),
            "horizon": iso(shown.horizon_ms),
            "committed": iso(shown.committed_ms),
            "age_ms": self._view.age_ms(shown, self._now_ms()),
        }


def _shown(row: Row) -> Row:
    return {**row, "window_start": iso(row["window_start"]), "window_end": iso(row["window_end"])}


def _json(read: Callable[[], dict[str, Any]]) -> Response:
    """Read and render in one go, off the event loop: a page of 10,000 rows takes its time."""
    return JSONResponse(read())


def _error(_request: Request, error: Exception) -> JSONResponse:
    """What the view cannot do now is 503; the rest of Cutwater's own errors are the server's fault."""
    return JSONResponse({"detail": str(error)}, 503 if isinstance(error, UnavailableError) else 500)


def create_app(
    view: View,
    generation: Generation,
    metrics: Metrics,
    now_ms: Callable[[], int],
    token: str = "",
    peers: Peers | None = None,
    snapshot: Snapshot | None = None,
    replica: Replica | None = None,
) -> FastAPI:
    """The application over one view; with `token` it answers only whoever shows it.

    `peers`: the others that hold a part of the state; None where the view holds all. `snapshot`: takes one within
    so many seconds; None where none are taken. `replica`: what it holds where it is one.
    """
    api = Api(view, generation, metrics, now_ms, peers or Peers.none(metrics), snapshot, replica)
    app = FastAPI(title="Cutwater rehydrator", version="1")
    app.get("/v1/state/{key:path}")(api.key)
    app.get("/v1/state")(api.scan)
    app.get("/v1/export")(api.export)
    app.get("/v1/milestone")(api.milestone)
    app.post("/v1/snapshots", status_code=202)(api.snapshot)
    app.get("/healthz")(api.health)
    app.get("/readyz")(api.ready)
    app.get("/metrics")(api.metrics)
    app.add_exception_handler(CutwaterError, _error)
    if token:
        app.add_middleware(TokenGuard, token=token)
    return app
