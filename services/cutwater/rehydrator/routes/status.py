"""Routes about the rehydrator itself: its milestone, its health, its metrics."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from cutwater.core.errors import UnavailableError
from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.http_api.parameters import WAIT_MS_DEFAULT, AtLeast, WaitMs


class StatusRoutes:
    """The state of the view."""

    def __init__(self, context: RouteContext) -> None:
        self._context = context
        self._view = context.view

    async def milestone(
        self, request: Request, at_least: AtLeast = None, wait_ms: WaitMs = WAIT_MS_DEFAULT
    ) -> Response:
        """The milestone that every answer shows now."""
        if answer := await self._context.wait_for_token(request, at_least, wait_ms):
            return answer
        shown = self._view.milestone
        if shown is None:
            raise UnavailableError(self._view.missing_reason)
        return JSONResponse(self._context.milestone(shown))

    async def reads(self) -> Response:
        """The most read keys and windows at this rehydrator, of the last 15 to 30 minutes.

        A key counts once for each answer about it, a window once for each answer that has it: of one key, of
        several, and of these in the global view. Each may have been read up to `keys_error` or `windows_error`
        times more; with up to 4,000 of them in a quarter of an hour that is 0.
        """
        return JSONResponse(self._context.metrics.accesses.answer())

    async def health(self) -> Response:
        """200 while the process answers; the body has the state of the view and the reason."""
        return JSONResponse(self._health())

    def _health(self) -> dict[str, Any]:
        state, reason = self._view.status
        shown = self._view.milestone
        return {
            "status": state.value,
            "ready": self._view.ready,
            "reason": reason,
            "role": self._context.role,
            "milestone": self._context.milestone(shown) if shown else None,
            "partitions": self._context.partitions,
            "selection": self._context.replica.outline if self._context.replica else None,
        }

    async def ready(self) -> Response:
        """200 while a milestone is shown and the view follows, else 503."""
        return JSONResponse(self._health(), 200 if self._view.ready else 503)

    async def metrics(self) -> Response:
        """Metrics in Prometheus' text format."""
        return Response(generate_latest(self._context.metrics.registry), media_type=CONTENT_TYPE_LATEST)
