"""Access to HTTP ports: by a token if one is set; without one, requests of other sites' pages are refused."""

from __future__ import annotations

import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from cutwater.core.access.roles import Caller, Role, Tokens

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Needs = Callable[[str, str], Role]
"""Returns the role that a request needs, by its method and path."""

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths without a token, for supervisors and load balancers; they expose no secrets."""
METRICS_PATH = "/metrics"
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods without side effects; a page of another site cannot read the answers."""
_SHOWN_CHARS = 80


CALLER = "cutwater.caller"
"""The key of a request's scope with the `Caller`, behind a port that requires a token."""


def reading(_method: str, _path: str) -> Role:
    """Return the role that a port asks for which changes nothing by itself."""
    return Role.VIEWER


class TokenGuard:
    """Requires a token in front of an application, on unknown routes too; only `OPEN_PATHS` are free.

    A token of the list needs the role that the request asks for. The token without a role may do all.
    """

    def __init__(
        self,
        app: App,
        tokens: Tokens,
        setting: str = "CUTWATER_API_TOKEN",
        metrics_token: str = "",
        needs: Needs = reading,
    ) -> None:
        """`setting`: the setting with the token. `metrics_token`: another token, for the metrics only. `needs`:
        returns the role for a method and a path."""
        self._app = app
        self._tokens = tokens
        self._metrics_token = metrics_token.encode("ascii")
        self._needs = needs
        self._problem = f"a token is required: send the header 'Authorization: Bearer <{setting}>'"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # There are no websockets here: the application itself answers that there is no such route.
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        caller = self._caller(scope)
        if caller is None:
            await refuse(send, 401, self._problem, (b"www-authenticate", b'Bearer realm="cutwater"'))
        elif problem := self._problem_of(caller, scope):
            await refuse(send, 403, problem)
        else:
            scope[CALLER] = caller
            await self._app(scope, receive, send)

    def _caller(self, scope: Scope) -> Caller | None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        token = token.strip()
        found = self._tokens.caller(token)
        # Constant time, as in `Tokens`.
        if self._metrics_token and scope["path"] == METRICS_PATH:
            right = hmac.compare_digest(token, self._metrics_token)
            found = found or (Caller("", None) if right else None)
        return found if scheme.lower() == b"bearer" else None

    def _problem_of(self, caller: Caller, scope: Scope) -> str:
        if caller.role is None:
            return ""
        needed = self._needs(scope["method"], scope["path"])
        return "" if caller.may(needed) else f"this needs the role {needed}, and {caller.name} is {caller.role}"


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
        if scope["method"] not in SAFE and is_from_another_site(scope, self._names):
            return "a page of another site may not do this: use cutwater or curl, or set a token"
        return ""

    def _is_allowed(self, name: str) -> bool:
        # Addresses are safe: DNS rebinding needs a host name.
        return (
            not name or name == "localhost" or name.endswith(".localhost") or name in self._names or _is_ip(name)
        )


def is_from_another_site(scope: Scope, names: Collection[str]) -> bool:
    """Return whether a page of another site sends the request. `names`: of the port, besides that in `Host`."""
    hosts = _values(scope, b"host")
    origins = [_place_of(one) for one in _values(scope, b"origin")]
    foreign = [one for one in origins if one not in hosts and name_of(one) not in names]
    # A page's own requests have an origin; a browser without one sends sec-fetch-site.
    sites = {"none", "same-origin"}.issuperset(_values(scope, b"sec-fetch-site"))
    return bool(foreign) or not (sites or origins)


def guard(app: App, address: str, tokens: Tokens, names: Collection[str], setting: str) -> App:
    """Put the fitting guard before `app`. `names`: the port's host names. `setting`: the setting of the token."""
    if tokens:
        return TokenGuard(app, tokens, setting)
    return BrowserGuard(app, names, address)


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for one, value in scope["headers"] if one == name]


def _place_of(origin: str) -> str:
    """Return host and port of an Origin header; an invalid value unchanged."""
    try:
        return urlsplit(origin).netloc if "//" in origin else origin
    except ValueError:
        return origin


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
