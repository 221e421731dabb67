"""The console's routes. All but one only read: an action changes what a token's role allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal, cast

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, generate_latest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cutwater.adapters.http.access import CALLER
from cutwater.console.actions.page_actions import ActionRequest, Actions, access_json
from cutwater.console.jobs import FollowedJob, Jobs, UnknownJobError
from cutwater.console.live import LiveAnswer, Streams, changes
from cutwater.console.pages import AskedWindows, Pages
from cutwater.core.access.roles import AccessError
from cutwater.core.console.job_picture import LANES_MAX
from cutwater.core.console.timeline import COLUMNS_MAX
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError

KEY_CHARS_MAX = 4_096
BODY_BYTES_MAX = 8_192
_TIME = 40
Time = Annotated[str | None, Query(max_length=_TIME)]
Milestone = Annotated[str | None, Query(max_length=80, description="A token, or a time.")]
Moment = Annotated[int | None, Query(ge=-(2**62), le=2**62)]


def create_app(
    jobs: Jobs, clock_ms: Callable[[], int], registry: CollectorRegistry, actions: Actions, look_s: float = 0.5
) -> FastAPI:
    """Return the application. `look_s`: time between two looks at what may have changed."""
    app = FastAPI(title="Cutwater console", docs_url=None, redoc_url=None, openapi_url=None)
    pages, streams = Pages(clock_ms), Streams()
    routes = _Routes(jobs, pages)
    app.get("/api/jobs")(routes.jobs)
    for name in ("overview", "keys", "generations", "regions", "recovery", "restorable", "audit", "late"):
        app.get(f"/api/jobs/{{job}}/{name}")(routes.of(getattr(pages, name)))
    app.get("/api/jobs/{job}/dead-letters")(routes.of(pages.dead_letters))
    app.get("/api/jobs/{job}/milestones")(routes.milestones)
    app.get("/api/jobs/{job}/shards")(routes.shards)
    app.get("/api/jobs/{job}/explore")(routes.explore)

    @app.get("/api/access")
    def access(request: Request) -> dict[str, Any]:
        return access_json(request.scope.get(CALLER))

    @app.post("/api/jobs/{job}/actions")
    async def act(job: str, request: Request) -> Response:
        wanted = await _wanted(request)
        caller, address = request.scope.get(CALLER), request.client.host if request.client else "unknown"

        def perform() -> dict[str, Any]:
            return actions.perform(jobs.find(job), wanted, caller, address)

        return _json(await asyncio.to_thread(perform))

    @app.get("/api/jobs/{job}/events")
    async def events(job: str) -> Response:
        followed = await asyncio.to_thread(jobs.find, job)
        return LiveAnswer(
            changes(
                lambda: followed.follower.version,
                lambda: _live(pages, followed),
                lambda: followed.follower.stopped,
                look_s,
            ),
            streams,
        )

    @app.get("/healthz")
    @app.get("/readyz")
    def healthy() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    app.middleware("http")(_never_stored)
    app.add_exception_handler(CutwaterError, _failure)
    app.add_exception_handler(RequestValidationError, _invalid)
    return app


class _ActionBody(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    action: str = Field(max_length=80)
    object: str = Field("", max_length=249)
    confirmation: str = Field(max_length=249)
    reason: str = Field("", max_length=500)
    duration: str = Field("", max_length=20)


async def _wanted(request: Request) -> ActionRequest:
    """Read the question of an action. Raises UsageError."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise UsageError("an action is asked for in JSON: send content-type application/json")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            raise UsageError(f"the body has more than {BODY_BYTES_MAX:,} bytes")
    try:
        return ActionRequest(**_ActionBody.model_validate_json(body).model_dump())
    except ValidationError as error:
        raise UsageError(_mistakes(error.errors())) from None


class _Routes:
    """The routes with parameters."""

    def __init__(self, jobs: Jobs, pages: Pages) -> None:
        self._jobs, self._pages = jobs, pages

    def jobs(self) -> Response:
        return _json(self._jobs.list_json())

    def of(self, page: Callable[[FollowedJob], dict[str, Any]]) -> Callable[[str], Response]:
        """Return the route of a page without parameters."""

        def route(job: str) -> Response:
            return _json(page(self._jobs.find(job)))

        return route

    def milestones(
        self,
        job: str,
        start: Annotated[int | None, Query(alias="from", ge=-(2**62), le=2**62)] = None,
        to: Moment = None,
        columns: Annotated[int, Query(ge=1, le=COLUMNS_MAX)] = 300,
    ) -> Response:
        return _json(self._pages.milestones(self._jobs.find(job), start, to, columns))

    def shards(
        self,
        job: str,
        of: Literal["writes", "state"] = "writes",
        first: Annotated[int, Query(ge=0, le=LANES_MAX)] = 0,
        end: Annotated[int | None, Query(ge=1, le=LANES_MAX)] = None,
    ) -> Response:
        return _json(self._pages.shards(self._jobs.find(job), of, first, end))

    def explore(
        self,
        job: str,
        key: Annotated[str, Query(min_length=1, max_length=KEY_CHARS_MAX)],
        start: Annotated[str | None, Query(alias="from", max_length=_TIME)] = None,
        to: Time = None,
        at: Milestone = None,
        against: Milestone = None,
    ) -> Response:
        asked = AskedWindows(key, start, to, at, against)
        return _json(self._pages.explore(self._jobs.find(job), asked))


def _json(document: dict[str, Any]) -> Response:
    """Return the answer. FastAPI's own way would look at each of a heat map's numbers."""
    return JSONResponse(document)


def _live(pages: Pages, job: FollowedJob) -> dict[str, Any]:
    """Return the overview; before the first read only how far that is."""
    try:
        return pages.overview(job)
    except UnavailableError:
        return {"reader": job.follower.standing_json()}


async def _never_stored(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    answer = await call_next(request)
    answer.headers.setdefault("cache-control", "no-store")
    return answer


def _failure(_request: Request, error: Exception) -> JSONResponse:
    """Answer with the reason, and with whose turn it is: 404, 403, 400, 503 or 500."""
    if isinstance(error, UnknownJobError):
        return JSONResponse({"detail": str(error), "kind": "unknown"}, 404)
    if isinstance(error, UnavailableError):
        return JSONResponse({"detail": str(error), "kind": "unavailable"}, 503)
    if isinstance(error, AccessError):
        return JSONResponse({"detail": str(error), "kind": "forbidden"}, 403)
    if isinstance(error, UsageError):
        return JSONResponse({"detail": str(error), "kind": "usage"}, 400)
    return JSONResponse({"detail": str(error), "kind": "broken"}, 500)


def _invalid(_request: Request, error: Exception) -> JSONResponse:
    said = _mistakes(cast("RequestValidationError", error).errors())
    return JSONResponse({"detail": said, "kind": "usage"}, 422)


def _mistakes(found: Sequence[Any]) -> str:
    return "; ".join(f"{'.'.join(map(str, one['loc'][-1:]))}: {one['msg']}" for one in found[:5])[:500]
