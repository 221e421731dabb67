"""Server-sent events: their text, and a streaming answer that ends if its reader does not read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

EVENTS = "text/event-stream"
SEND_S_MAX = 30.0
"""A reader that reads nothing for this long is disconnected; the missing end shows that an event is incomplete."""
HEARTBEAT_S = 10.0
RETRY_MS = 1_000
BEGIN = f"retry: {RETRY_MS}\n\n"
HEARTBEAT = ": nothing new\n\n"


def event(kind: str, data: Any, token: str | None = None) -> str:
    """Return one event; a reader that reconnects sends `token` to say that it has everything up to here."""
    return event_of(kind, json.dumps(data), token)


def event_of(kind: str, data: str, token: str | None = None) -> str:
    """Return one event of JSON in one line."""
    mark = f"id: {token}\n" if token else ""
    return f"event: {kind}\n{mark}data: {data}\n\n"


class Events(StreamingResponse):
    """Open until its events end or its reader disconnects; `during` is held meanwhile."""

    def __init__(self, events: AsyncIterator[str], during: AbstractContextManager[None]) -> None:
        super().__init__(events, media_type=EVENTS, headers={"cache-control": "no-store"})
        self._during = during

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            async with asyncio.timeout(SEND_S_MAX):
                await send(message)

        with self._during:
            await super().__call__(scope, receive, sending)
