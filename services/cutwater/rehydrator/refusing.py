"""Errors as answers: each is `{"detail": text}` with the status that says whose fault it is."""

from __future__ import annotations

from typing import Any, cast

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from cutwater.core.errors import UnavailableError

_MISTAKES_MAX = 5
_NAME_CHARS = 60


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
