"""Access to HTTP ports: by a token if one is set; without one, requests of other sites' pages are refused."""

from __future__ import annotations

import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths without a token, for supervisors and load balancers; they expose no secrets."""
METRICS_PATH = "/metrics"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods without side effects; a page of another site cannot read the answers."""
_SHOWN_CHARS = 80


class TokenGuard:
    """Requires the token in front of an application, on unknown routes too; only `OPEN_PATHS` are free."""

    def __init__(self, app: App, token: str, setting: str = "CUTWATER_API_TOKEN", metrics_token: str = "") -> None:
        """`setting`: the setting with the token. `metrics_token`: another token, for the metrics only."""
        self._app = app
        self._token = token.encode("ascii")
        self._metrics_token = metrics_token.encode("ascii")
        self._problem = f"a token is required: send the header 'Authorization: Bearer <{setting}>'"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # There are no websockets here: the application itself answers that there is no such route.
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._has_token(scope):
            await self._app(scope, receive, send)
        else:
            await refuse(send, 401, self._problem, (b"www-authenticate", b'Bearer realm="cutwater"'))

    def _has_token(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        token = token.strip()
        # Constant time, so that the duration does not reveal how much of a guess is right.
        right = hmac.compare_digest(token, self._token)
        if self._metrics_token and scope["path"] == METRICS_PATH:
            right |= hmac.compare_digest(token, self._metrics_token)
        return scheme.lower() == b"bearer" and right


class BrowserGuard:
    """Protects a port without a token from pages in a browser.

    A page of another site cannot read an answer unless DNS rebinding leads its host name here. So on the loopback
    address, or if names are set, a request must use an address, `localhost`, or one of these names. Requests from
    pages of other sites must not change anything.
    """

    def __init__(self, app: App, names: Collection[str], address: str) -> None:
        """`names`: the port's host names besides its addresses. `address`: the bound one, as numbers."""
        self._app = app
        self._names = frozenset(one.lower() for one in names)
        self._only_names = bool(names) or is_loopback(address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (problem := self._problem(scope)):
            await refuse(send, 403, problem)
        else:
            await self._app(scope, receive, send)

    def _problem(self, scope: Scope) -> str:
        hosts = _values(scope, b"host")
        if self._only_names and any(not self._is_allowed(name_of(one)) for one in hosts):
            told = ", ".join(hosts)[:_SHOWN_CHARS]
            return (
                f"{told!r} is no name of this port, which requires no token: use its address, set a token, or "
                "add the name to CUTWATER_API_HOSTS"
            )
        if scope["method"] in _SAFE:
            return ""
        origins = [urlsplit(one).netloc if "//" in one else one for one in _values(scope, b"origin")]
        foreign = [one for one in origins if one not in hosts and name_of(one) not in self._names]
        # A page's own requests have an origin; a browser without one sends sec-fetch-site.
        sites = {"none", "same-origin"}.issuperset(_values(scope, b"sec-fetch-site"))
        if foreign or not (sites or origins):
            return "a page of another site may not do this: use cutwater or curl, or set a token"
        return ""

    def _is_allowed(self, name: str) -> bool:
        # Addresses are safe: DNS rebinding needs a host name.
        return (
            not name or name == "localhost" or name.endswith(".localhost") or name in self._names or _is_ip(name)
        )


def guard(app: App, address: str, token: str, names: Collection[str], setting: str) -> App:
    """Put the fitting guard before `app`. `names`: the port's host names. `setting`: the setting of the token."""
    if token:
        return TokenGuard(app, token, setting)
    return BrowserGuard(app, names, address)


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for one, value in scope["headers"] if one == name]


def name_of(host: str) -> str:
    """Return the host name of a Host header or the like, without the port; an invalid value unchanged."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return host


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def open_to_others(address: str, token: str) -> bool:
    """Return whether the port is open to the network without a token. `address`: the bound one, as numbers."""
    return not token and not is_loopback(address)


async def answer(send: Send, status: int, body: bytes, kind: str, *headers: tuple[bytes, bytes]) -> None:
    length = str(len(body)).encode()
    plain = [(b"content-type", kind.encode()), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": plain})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, status: int, problem: str, *headers: tuple[bytes, bytes]) -> None:
    """Send a problem in the API's form, and close the connection."""
    body = json.dumps({"detail": problem}).encode()
    await answer(send, status, body, "application/json", (b"connection", b"close"), *headers)
