"""The HTTP API: the state at one milestone, which every answer names. Here its routes come together."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.generations import Generation
from cutwater.rehydrator.access import TokenGuard
from cutwater.rehydrator.answering import Answering
from cutwater.rehydrator.arrow import Arrow
from cutwater.rehydrator.export import Exports
from cutwater.rehydrator.following import Following
from cutwater.rehydrator.metrics import Metrics
from cutwater.rehydrator.peers import Peers
from cutwater.rehydrator.reading import Reading
from cutwater.rehydrator.standing import Standing
from cutwater.rehydrator.whole import Snapshot, Whole
from cutwater.views.changes import Changes
from cutwater.views.view import View


def create_app(
    view: View,
    generation: Generation,
    metrics: Metrics,
    now_ms: Callable[[], int],
    token: str = "",
    peers: Peers | None = None,
    snapshot: Snapshot | None = None,
    changes: Changes | None = None,
) -> FastAPI:
    """The application over one view; with `token` it answers only whoever shows it.

    `peers`: the others that hold a part of the state; None where the view holds all. `snapshot`: takes one within
    so many seconds; None where none are taken. `changes`: what the view's follower says; None where there is none.
    """
    answering = Answering(view, generation, metrics, now_ms, peers or Peers.none(metrics))
    exports = Exports()
    reading, whole, standing = Reading(answering), Whole(answering, exports, snapshot), Standing(answering)
    app = FastAPI(title="Cutwater rehydrator", version="1")
    app.get("/v1/state/{key:path}")(reading.key)
    app.get("/v1/state")(reading.scan)
    app.get("/v1/export")(whole.export)
    app.get("/v1/arrow", response_class=Response)(Arrow(answering, exports).rows)
    following = Following(answering, changes or Changes(lambda: view.milestone))
    app.get("/v1/changes", response_class=Response)(following.changes)
    app.get("/v1/milestone")(standing.milestone)
    app.post("/v1/snapshots", status_code=202)(whole.snapshot)
    app.get("/healthz")(standing.health)
    app.get("/readyz")(standing.ready)
    app.get("/metrics")(standing.metrics)
    app.add_exception_handler(CutwaterError, _error)
    if token:
        app.add_middleware(TokenGuard, token=token)
    return app


def _error(_request: Request, error: Exception) -> JSONResponse:
    """What the view cannot do now is 503; the rest of Cutwater's own errors are the server's fault."""
    return JSONResponse({"detail": str(error)}, 503 if isinstance(error, UnavailableError) else 500)
