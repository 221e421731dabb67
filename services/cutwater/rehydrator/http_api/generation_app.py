"""The application of one generation, and the way of a request from one generation's application to another's."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from starlette.types import Message, Receive, Scope, Send

_OF_THE_CONNECTION = (
    "type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path", "headers",
    "client", "server", "extensions",
)  # fmt: skip
"""Keys of an ASGI scope that the server sets. An application adds others, which are not valid in the next one."""
_COUNTED = "cutwater.counted"


@dataclass
class GenerationApp:
    """The application of one generation."""

    app: FastAPI
    division: str
    """The mark of how its partitions are divided among peers."""
    open_requests: int = 0
    """Requests in progress."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        counted = _Counted(self)
        try:
            await self.app({**scope, _COUNTED: counted}, receive, send)
        finally:
            counted.end()


class _Counted:
    """One request among the open ones of an application."""

    def __init__(self, app: GenerationApp) -> None:
        self._app = app
        app.open_requests += 1

    def move(self, app: GenerationApp) -> None:
        self.end()
        self._app = app
        app.open_requests += 1

    def end(self) -> None:
        self._app.open_requests -= 1


def move_request(request: Request, successor: GenerationApp) -> None:
    """Count an open request as one of the successor's: from now on it needs nothing of its own application."""
    counted = request.scope.get(_COUNTED)
    if counted is not None:
        counted.move(successor)


class SuccessorAnswer(Response):
    """The answer of another generation's application to the same request."""

    def __init__(self, successor: GenerationApp, body: bytes) -> None:
        """`body`: of the request, which this generation's application has read."""
        super().__init__(status_code=503)  # not an answer of this generation: a join of several must not read it
        self._successor, self._request_body = successor, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        messages: list[Message] = [{"type": "http.request", "body": self._request_body, "more_body": False}]

        async def repeated() -> Message:
            return messages.pop() if messages else await receive()

        await self._successor({key: scope[key] for key in _OF_THE_CONNECTION if key in scope}, repeated, send)


async def hand_over(request: Request, successor: GenerationApp) -> Response:
    """Return the answer of `successor` to `request`."""
    return SuccessorAnswer(successor, await request.body())
