"""Who may ask the HTTP API: whoever shows the token, where one is set."""

from __future__ import annotations

import hmac
import ipaddress

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Answered to everybody: whoever restarts or balances services asks them, and holds no secrets."""

_PROBLEM = "this API asks for a token: send the header 'Authorization: Bearer <CUTWATER_API_TOKEN>'"


class TokenGuard:
    """In front of an application: every route but the open ones, the unknown ones too, asks for the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The API has no websockets: of one the application itself says that there is no such route.
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._shown(scope):
            await self._app(scope, receive, send)
        else:
            refusal = JSONResponse({"detail": _PROBLEM}, 401, {"WWW-Authenticate": 'Bearer realm="cutwater"'})
            await refusal(scope, receive, send)

    def _shown(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        # Constant time: how long the comparison takes must not tell how much of a guess was right.
        right = hmac.compare_digest(token.strip(), self._token)
        return scheme.lower() == b"bearer" and right


def open_to_others(address: str, token: str) -> bool:
    """Can anybody on the network read the state? `address` is the bound one, as numbers."""
    return not token and not ipaddress.ip_address(address.partition("%")[0]).is_loopback
