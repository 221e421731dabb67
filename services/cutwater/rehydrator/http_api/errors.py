"""Errors as answers: each is `{"detail": text}` with the status that says whose fault it is."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import unquote_to_bytes

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from cutwater.core.errors import UnavailableError

NO_TEXT = "the address is no UTF-8 behind its % signs: a key that is none cannot be asked for"
_MISTAKES_MAX = 5
_NAME_CHARS = 60


class TextGuard:
    """Refuses an address that is no text: with a sign in place of each wrong byte it would name another key."""

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


def failed(_request: Request, error: Exception) -> JSONResponse:
    """What the view cannot do now is 503; the rest of Cutwater's own errors are the server's fault."""
    return JSONResponse({"detail": str(error)}, 503 if isinstance(error, UnavailableError) else 500)


def mistaken(_request: Request, error: Exception) -> JSONResponse:
    """422 with what is wrong with which parameter, the first few.

    What was sent is not repeated, as FastAPI would do it: it may be long, or nothing that JSON can hold.
    """
    mistakes = cast("RequestValidationError", error).errors()
    text = "; ".join(map(_mistake, mistakes[:_MISTAKES_MAX]))
    # A name in a body may hold half a surrogate pair, which no encoding takes.
    return JSONResponse({"detail": text.encode("utf-8", "replace").decode()}, 422)


def _mistake(one: dict[str, Any]) -> str:
    # The first part says where it was sent: query, path or body.
    name = ".".join(str(part)[:_NAME_CHARS] for part in one["loc"][1:])
    return f"{name}: {one['msg']}" if name else str(one["msg"])
