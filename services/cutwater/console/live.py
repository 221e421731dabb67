"""Live pages by server-sent events: the overview again whenever something has changed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import HTTPException
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

STREAMS_MAX = 32
LOOK_S = 0.5
SILENT_S = 10.0
"""After this time without a change the stream sends a comment, so that the page knows that it is alive."""
SEND_S_MAX = 30.0
"""A page that reads nothing for this long is disconnected."""
BEGIN = "retry: 2000\n\n"
ALIVE = ": alive\n\n"


class Streams:
    """Counts the open streams, and refuses more than `STREAMS_MAX`."""

    def __init__(self, most: int = STREAMS_MAX) -> None:
        self._most, self.open = most, 0
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[None]:
        with self._lock:
            if self.open >= self._most:
                raise HTTPException(503, f"{self._most} pages are live already: close one, or reload this one")
            self.open += 1
        try:
            yield
        finally:
            with self._lock:
                self.open -= 1


async def changes(
    version: Callable[[], int],
    page: Callable[[], dict[str, Any]],
    ended: Callable[[], bool],
    look_s: float = LOOK_S,
    silent_s: float = SILENT_S,
) -> AsyncIterator[str]:
    """Return the page at once, and again after each change of `version`, until `ended`."""
    yield BEGIN
    known: int | None = None
    silent = 0.0
    while not ended():
        now = version()
        if now != known:
            known, silent = now, 0.0
            yield f"event: overview\ndata: {json.dumps(await asyncio.to_thread(page))}\n\n"
        elif silent >= silent_s:
            silent = 0.0
            yield ALIVE
        await asyncio.sleep(look_s)
        silent += look_s


class LiveAnswer(StreamingResponse):
    """Open until its reader disconnects or does not read."""

    def __init__(self, events: AsyncIterator[str], streams: Streams) -> None:
        self._streams = streams
        super().__init__(events, media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            async with asyncio.timeout(SEND_S_MAX):
                await send(message)

        with self._streams.one():
            await super().__call__(scope, receive, sending)
