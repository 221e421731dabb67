"""The HTTP API: its routes put together. Every answer names the one milestone that it shows."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse

from cutwater.adapters.columnar.arrow import MEDIA_TYPE
from cutwater.adapters.http.access import TokenGuard
from cutwater.core.access.roles import Tokens
from cutwater.core.errors import CutwaterError
from cutwater.core.protocol.generation import Generation
from cutwater.core.query.key_path import KEY_ROUTE
from cutwater.rehydrator.access import needed_role
from cutwater.rehydrator.cluster.held_part import Replica
from cutwater.rehydrator.cluster.peers import Peers
from cutwater.rehydrator.cluster.regions import Regions
from cutwater.rehydrator.global_view.distinct import GLOBAL_PATH, GlobalDistinctRoutes
from cutwater.rehydrator.global_view.keys_and_top import GlobalKeysAndTopRoutes
from cutwater.rehydrator.global_view.query import GlobalQueries
from cutwater.rehydrator.global_view.rows import Global
from cutwater.rehydrator.http_api import parameters
from cutwater.rehydrator.http_api.body_limit import BodyGuard
from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.http_api.errors import TextGuard, handle_failure, handle_invalid_request
from cutwater.rehydrator.http_api.generation_app import GenerationApp
from cutwater.rehydrator.http_api.milestone_waiters import Waiters
from cutwater.rehydrator.http_api.models import (
    NOT_READY,
    READING,
    WAITING,
    DistinctAnswer,
    Health,
    KeyAnswer,
    KeysAnswer,
    Milestone,
    ReadsAnswer,
    ScanAnswer,
    SizesAnswer,
    Taken,
    TopAnswer,
    json_responses,
    stream_responses,
)
from cutwater.rehydrator.http_api.openapi import Described
from cutwater.rehydrator.http_api.region_models import (
    GlobalDistinctAnswer,
    GlobalKeyAnswer,
    GlobalKeysAnswer,
    GlobalScanAnswer,
    GlobalTopAnswer,
    StoredKeyAnswer,
    StoredKeysAnswer,
    StoredScanAnswer,
    StoredSetsAnswer,
)
from cutwater.rehydrator.http_api.sse import EVENTS
from cutwater.rehydrator.http_api.streaming import LINES, Exports
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.rehydrator.routes.arrow_export import Arrow
from cutwater.rehydrator.routes.changes import ChangeRoutes
from cutwater.rehydrator.routes.distinct import PATH, DistinctRoutes
from cutwater.rehydrator.routes.export import ExportRoutes, Sizes, Snapshot
from cutwater.rehydrator.routes.keys_and_top import KeysAndTopRoutes
from cutwater.rehydrator.routes.owners import Owners
from cutwater.rehydrator.routes.rows import RowRoutes
from cutwater.rehydrator.routes.status import StatusRoutes
from cutwater.rehydrator.routes.stored_rows import StoredRows
from cutwater.views.query.change_feed import Changes
from cutwater.views.query.view import View

NO_TOKENS = Tokens()


def create_app(
    view: View,
    generation: Generation,
    metrics: Metrics,
    now_ms: Callable[[], int],
    tokens: Tokens = NO_TOKENS,
    peers: Peers | None = None,
    snapshot: Snapshot | None = None,
    sizes: Sizes | None = None,
    replica: Replica | None = None,
    changes: Changes | None = None,
    shown: Callable[[], GenerationApp] | None = None,
    regions: Regions | None = None,
    metrics_token: str = "",
    waiters: Waiters | None = None,
) -> FastAPI:
    """Return the application over one view; with `tokens` it answers only requests that carry one of them.

    `peers`: the rehydrators that hold parts of the state; None if the view holds all. `snapshot`: takes a
    snapshot; None if none are taken. `sizes`: the last census, for JSON. `replica`: the part held; None if this is
    no replica. `changes`: the changes that the follower reports; None without a follower. `regions`: the regions
    of the global view; None without one. `waiters`: the requests that wait for a milestone. `metrics_token`:
    another token, for the metrics only; empty for none. `shown`: the application of the generation shown; None if
    there is only this one.
    """
    app = Described(view.job, bool(tokens), title="Cutwater rehydrator", version="1")

    def successor() -> GenerationApp | None:
        other = shown() if shown else None
        return other if other and other.app is not app else None

    peers = peers or Peers.none(metrics)
    context = RouteContext(view, generation, metrics, now_ms, peers, replica, successor, waiters)
    owners = Owners(context)
    reading, spanning = RowRoutes(context, owners), KeysAndTopRoutes(context, owners)
    stored, sets = StoredRows(context, owners), DistinctRoutes(context, owners)
    consulting = GlobalQueries(context, regions, app)
    merged, everywhere = Global(context, consulting), GlobalKeysAndTopRoutes(context, consulting)
    united = GlobalDistinctRoutes(context, consulting)
    exports, standing = Exports(), StatusRoutes(context)
    whole, arrow = ExportRoutes(context, exports, snapshot, sizes), Arrow(context, exports)
    following = ChangeRoutes(context, changes or Changes(lambda: view.milestone), shown or (lambda: None))
    app.state.following = following
    app.get(parameters.STATE, responses=json_responses(KeyAnswer, *READING))(reading.key)
    app.get(KEY_ROUTE, responses=json_responses(ScanAnswer | KeyAnswer, *READING))(reading.scan)
    app.post("/v1/keys", responses=json_responses(KeysAnswer, *READING, 413))(spanning.keys)
    app.get("/v1/top", responses=json_responses(TopAnswer, *READING))(spanning.top)
    app.post(PATH, responses=json_responses(DistinctAnswer, *READING, 413))(sets.distinct)
    app.get(parameters.GLOBAL, responses=json_responses(GlobalKeyAnswer, *WAITING, 409))(merged.key)
    rows_or_key = json_responses(GlobalScanAnswer | GlobalKeyAnswer, *WAITING, 409)
    app.get("/v1/global/state", responses=rows_or_key)(merged.scan)
    app.post("/v1/global/keys", responses=json_responses(GlobalKeysAnswer, *WAITING, 409, 413))(everywhere.keys)
    app.post(GLOBAL_PATH, responses=json_responses(GlobalDistinctAnswer, *WAITING, 409, 413))(united.distinct)
    app.get("/v1/global/top", responses=json_responses(GlobalTopAnswer, *WAITING, 409))(everywhere.top)
    app.get(parameters.STORED, responses=json_responses(StoredKeyAnswer, *READING))(stored.key)
    app.get("/v1/stored", responses=json_responses(StoredScanAnswer, *READING))(stored.scan)
    app.post("/v1/stored-keys", responses=json_responses(StoredKeysAnswer, *READING, 413))(stored.keys)
    app.post("/v1/stored-sets", responses=json_responses(StoredSetsAnswer, *READING, 413))(stored.sets)
    app.get("/v1/export", response_class=Response, responses=stream_responses(LINES, 500, 503))(whole.export)
    app.get("/v1/arrow", response_class=Response, responses=stream_responses(MEDIA_TYPE, *WAITING, 501))(
        arrow.rows
    )
    app.get("/v1/changes", response_class=Response, responses=stream_responses(EVENTS, 400, 421, 422, 500, 503))(
        following.changes
    )
    app.get("/v1/milestone", responses=json_responses(Milestone, *WAITING))(standing.milestone)
    app.get("/v1/sizes", responses=json_responses(SizesAnswer, 500, 503))(whole.sizes)
    app.get("/v1/reads", responses=json_responses(ReadsAnswer, 500))(standing.reads)
    app.post("/v1/snapshots", status_code=202, responses=json_responses(Taken, 409, 500, 503, success=202))(
        whole.snapshot
    )
    app.get("/healthz", responses=json_responses(Health))(standing.health)
    app.get("/readyz", responses=json_responses(Health) | {503: {"model": Health, "description": NOT_READY}})(
        standing.ready
    )
    app.get("/metrics", response_class=PlainTextResponse)(standing.metrics)
    app.add_exception_handler(CutwaterError, handle_failure)
    app.add_exception_handler(RequestValidationError, handle_invalid_request)
    app.add_middleware(BodyGuard)
    app.add_middleware(TextGuard)
    if tokens:
        app.add_middleware(TokenGuard, tokens=tokens, metrics_token=metrics_token, needs=needed_role)
    return app
