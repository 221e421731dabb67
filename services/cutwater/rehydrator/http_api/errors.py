"""Errors as answers: each is `{"detail": text}` with a status that separates client and server errors."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import unquote_to_bytes

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from cutwater.core.errors import UnavailableError

NO_TEXT = "the URL is not in UTF-8 after decoding its % signs: keys are UTF-8 text"
_MISTAKES_MAX = 5
_NAME_CHARS = 60


class TextGuard:
    """Rejects a URL that is not UTF-8: with replacement characters it would name another key."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_text(scope):
            await JSONResponse({"detail": NO_TEXT}, 400)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_text(scope: Scope) -> bool:
    try:
        for part in (scope.get("raw_path") or b"", scope["query_string"]):
            unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def handle_failure(_request: Request, error: Exception) -> JSONResponse:
    """Answer 503 if the view is unavailable, 500 for Cutwater's other errors."""
    return JSONResponse({"detail": str(error)}, 503 if isinstance(error, UnavailableError) else 500)


def handle_invalid_request(_request: Request, error: Exception) -> JSONResponse:
    """Answer 422 with the first 5 invalid parameters. Unlike FastAPI's answer, this does not repeat the values:
    they may be long or not valid in JSON.
    """
    mistakes = cast("RequestValidationError", error).errors()
    text = "; ".join(map(_mistake, mistakes[:_MISTAKES_MAX]))
    # A name in a body may hold half a surrogate pair, which cannot be encoded.
    return JSONResponse({"detail": text.encode("utf-8", "replace").decode()}, 422)


def _mistake(one: dict[str, Any]) -> str:
    # The first part is the place: query, path or body.
    name = ".".join(str(part)[:_NAME_CHARS] for part in one["loc"][1:])
    return f"{name}: {one['msg']}" if name else str(one["msg"])
