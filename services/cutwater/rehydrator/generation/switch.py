"""The router in front of the generations: each has its own application, and one of them answers a request.

So rows, milestone and owners in an answer are of one generation. The previous application stays for a while: for
requests in progress, and for peers that have not switched yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from cutwater.rehydrator.cluster.peers import PASSED_ON

_AGAIN = "cutwater.again"


class Switched(Exception):
    """Another generation is shown: the waiting request goes there."""


def switched(request: Request, _error: Exception) -> JSONResponse:
    """Mark the request for `Front`, which repeats it; without `Front` the client gets 503."""
    request.scope[_AGAIN] = True
    return JSONResponse({"detail": "another generation is shown now: send the request again"}, 503)


@dataclass
class Door:
    """The application of one generation."""

    app: FastAPI
    division: str
    """Identifies the division of its partitions among peers."""
    asked: int = 0
    """Requests in progress."""


class Front:
    """The application of a rehydrator. One thread calls `show` and `drop`, the event loop the application."""

    def __init__(self, first: Door) -> None:
        self._doors: tuple[Door, ...] = (first,)

    @property
    def shown(self) -> Door:
        return self._doors[0]

    def show(self, door: Door) -> None:
        """Route new requests to this one."""
        self._doors = (door, *self._doors)

    def drop(self, door: Door) -> None:
        """Remove one that is no longer shown and has no requests in progress."""
        self._doors = tuple(one for one in self._doors if one is not door)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        door, received = self._for(scope), Received(receive)
        # Each round, another generation was promoted.
        while await self._unanswered(door, dict(scope), received.receive, send):
            door = self.shown
            received.rewind()

    def _for(self, scope: Scope) -> Door:
        """Return the one that is shown; for a peer with the division of an earlier one, that one."""
        doors = self._doors
        marks = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == PASSED_ON.encode()]
        return next((one for one in doors if one.division in marks), doors[0])

    async def _unanswered(self, door: Door, scope: Scope, receive: Receive, send: Send) -> bool:
        async def sending(message: Message) -> None:
            if not scope.get(_AGAIN):
                await send(message)

        door.asked += 1
        try:
            await door.app(scope, receive, sending)
        finally:
            door.asked -= 1
        return bool(scope.get(_AGAIN))


class Received:
    """The messages of a request, for another application to read again; `BodyGuard` limits their size."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: list[Message] = []
        self._at = 0

    def rewind(self) -> None:
        self._at = 0

    async def receive(self) -> Message:
        if self._at == len(self._messages):
            self._messages.append(await self._receive())
        self._at += 1
        return self._messages[self._at - 1]
