"""The console's front: security headers on every answer, and the token in front of all data.

The page itself holds no data, so it loads without a token. It asks for the token, and sends it with each request
for data. Without a token the rehydrator's rule holds: requests that pages of other sites cause are refused.
"""

from __future__ import annotations

from collections.abc import Collection

from cutwater.adapters.http.access import (
    METRICS_PATH,
    OPEN_PATHS,
    App,
    BrowserGuard,
    Message,
    Receive,
    Scope,
    Send,
    TokenGuard,
    refuse,
)

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
    """

    def __init__(self, data: App, page: App) -> None:
        self._data, self._page = data, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        is_data = path.startswith(API_PREFIX) or path == METRICS_PATH or path in OPEN_PATHS
        if is_data and any(name == b"sec-fetch-site" and site in _OTHER_SITES for name, site in scope["headers"]):
            await refuse(send, 403, _REFUSED)
        else:
            await (self._data if is_data else self._page)(scope, receive, send)


def secured(
    data: App, page: App, address: str, token: str, names: Collection[str] = (), metrics_token: str = ""
) -> App:
    """Return the whole application. `address`: the bound one, as numbers. `names`: the port's host names.
    `metrics_token`: another token, for the metrics only."""
    if token:
        return Headers(Paths(TokenGuard(data, token, metrics_token=metrics_token), page))
    return Headers(BrowserGuard(Paths(data, page), names, address))
