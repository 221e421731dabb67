"""The console's front: security headers on every answer, and the token in front of all data.

The page itself holds no data, so it loads without a token. It asks for the token, and sends it as a header with
each request for data: a page of another site has none to send. Without a token the rehydrator's rule holds:
requests that pages of other sites cause are refused.
"""

from __future__ import annotations

from collections.abc import Collection

from cutwater.adapters.http.access import (
    METRICS_PATH,
    OPEN_PATHS,
    SAFE,
    App,
    BrowserGuard,
    Message,
    Receive,
    Scope,
    Send,
    TokenGuard,
    is_from_another_site,
    refuse,
)
from cutwater.core.access.roles import Role, Tokens

API_PREFIX = "/api/"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""No inline script or style, no other host, no frame, and no HTML made from text."""
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class Headers:
    """Adds the security headers to every answer, errors included."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [(name, value) for name, value in message.get("headers", ()) if name not in HEADERS]
                message["headers"] = [*kept, *HEADERS.items()]
            await send(message)

        await self._app(scope, receive, sending)


_OTHER_SITES = frozenset({b"cross-site", b"same-site"})
_REFUSED = "a page of another site may not ask for data: open the console itself"


class Paths:
    """Sends requests for data to one application, all others to the static files.

    A page of another site could not read an answer, but it could let the console work: its requests are refused.
    What changes something must come from the console's own page, or from no page, even with a token.
    """

    def __init__(self, data: App, page: App, names: Collection[str]) -> None:
        self._data, self._page = data, page
        self._names = frozenset(one.lower() for one in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        is_data = path.startswith(API_PREFIX) or path == METRICS_PATH or path in OPEN_PATHS
        if is_data and self._is_foreign(scope):
            await refuse(send, 403, _REFUSED)
        else:
            await (self._data if is_data else self._page)(scope, receive, send)

    def _is_foreign(self, scope: Scope) -> bool:
        if any(name == b"sec-fetch-site" and site in _OTHER_SITES for name, site in scope["headers"]):
            return True
        return scope["method"] not in SAFE and is_from_another_site(scope, self._names)


def needed_role(method: str, _path: str) -> Role:
    """Return the least role for a request; an action asks for its own besides."""
    return Role.VIEWER if method in SAFE else Role.OPERATOR


def secured(
    data: App, page: App, address: str, tokens: Tokens, names: Collection[str] = (), metrics_token: str = ""
) -> App:
    """Return the whole application. `address`: the bound one, as numbers. `names`: the port's host names.
    `metrics_token`: another token, for the metrics only."""
    if tokens:
        guarded = TokenGuard(data, tokens, metrics_token=metrics_token, needs=needed_role)
        return Headers(Paths(guarded, page, names))
    return Headers(BrowserGuard(Paths(data, page, names), names, address))
