"""In front of the generations: each has an application of its own, and a question is answered by one of them.

Rows, milestone, and who holds what are therefore always of one generation. The application of the one that was
shown before stays for a while: for answers under way, and for peers that have not changed over yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from cutwater.rehydrator.cluster.peers import PASSED_ON

_AGAIN = "cutwater.again"


class Switched(Exception):
    """Another generation is shown by now: whoever waits is to ask that one."""


def switched(request: Request, _error: Exception) -> JSONResponse:
    """What `Front` takes for "ask the one that is shown"; without it in front the asker may do so."""
    request.scope[_AGAIN] = True
    return JSONResponse({"detail": "another generation is shown by now: ask again"}, 503)


@dataclass
class Door:
    """The application of one generation."""

    app: FastAPI
    division: str
    """The mark of how its partitions are divided among peers."""
    asked: int = 0
    """Answers under way."""


class Front:
    """The application of a rehydrator. `show` and `drop` are for one thread, calls for the event loop's."""

    def __init__(self, first: Door) -> None:
        self._doors: tuple[Door, ...] = (first,)

    @property
    def shown(self) -> Door:
        """Whose milestone readers see."""
        return self._doors[0]

    def show(self, door: Door) -> None:
        """Questions go there from now on."""
        self._doors = (door, *self._doors)

    def drop(self, door: Door) -> None:
        """One that is not shown any more, and of which nobody waits for an answer."""
        self._doors = tuple(one for one in self._doors if one is not door)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        door, received = self._for(scope), Received(receive)
        # Each time round another generation was promoted.
        while await self._unanswered(door, dict(scope), received.receive, send):
            door = self.shown
            received.rewind()

    def _for(self, scope: Scope) -> Door:
        """That which is shown; for a peer that divides the partitions as an earlier one, that one."""
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
    """What came of a request, for another application to read once more: bounded by `BodyGuard` in each."""

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
