"""A limit on the size of a request: bodies are read whole before they are checked."""

from __future__ import annotations

from fastapi.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX = 1 << 20


class BodyGuard:
    """Answers 413 for a larger body, whatever its Content-Length says."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = BODY_BYTES_MAX

        async def bounded() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, f"the body has more than {BODY_BYTES_MAX:,} bytes: request fewer keys")
            return message

        await self._app(scope, bounded if scope["type"] == "http" else receive, send)
