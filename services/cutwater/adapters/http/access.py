"""Who may ask an HTTP port: whoever shows the token where one is set, and no page in a browser where none is."""

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
"""Answered to everybody: whoever restarts or balances services asks them, and holds no secrets."""
METRICS_PATH = "/metrics"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""What they bring about is the same as nothing, and a page of another site does not see the answer."""
_SHOWN_CHARS = 80


class TokenGuard:
    """In front of an application: every route but the open ones, the unknown ones too, asks for the token."""

    def __init__(self, app: App, token: str, setting: str = "CUTWATER_API_TOKEN", metrics_token: str = "") -> None:
        """`setting`: where the token is set. `metrics_token`: another one, which is shown the metrics only."""
        self._app = app
        self._token = token.encode("ascii")
        self._metrics_token = metrics_token.encode("ascii")
        self._problem = f"a token is asked for here: send the header 'Authorization: Bearer <{setting}>'"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # There are no websockets here: of one the application itself says that there is no such route.
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._shown(scope):
            await self._app(scope, receive, send)
        else:
            await refuse(send, 401, self._problem, (b"www-authenticate", b'Bearer realm="cutwater"'))

    def _shown(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        token = token.strip()
        # Constant time: how long the comparison takes must not tell how much of a guess was right.
        right = hmac.compare_digest(token, self._token)
        if self._metrics_token and scope["path"] == METRICS_PATH:
            right |= hmac.compare_digest(token, self._metrics_token)
        return scheme.lower() == b"bearer" and right


class BrowserGuard:
    """In front of a port without a token: a page in somebody's browser must not ask in its user's place.

    A page of another site cannot read an answer, unless its name is made to lead here. So on the loopback, and
    wherever names were set, a request must name an address, `localhost`, or one of these; and a page changes
    nothing.
    """

    def __init__(self, app: App, names: Collection[str], address: str) -> None:
        """`names`: by which this port is known beside its addresses. `address`: the bound one, as numbers."""
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
        if self._only_names and any(not self._known(name_of(one)) for one in hosts):
            told = ", ".join(hosts)[:_SHOWN_CHARS]
            return (
                f"{told!r} is no name of this port, which asks for no token: ask by its address, set a token, or "
                "name it by CUTWATER_API_HOSTS"
            )
        if scope["method"] in _SAFE:
            return ""
        origins = [urlsplit(one).netloc if "//" in one else one for one in _values(scope, b"origin")]
        foreign = [one for one in origins if one not in hosts and name_of(one) not in self._names]
        # A page's own requests have an origin; a browser that does not say so says from where it asks.
        sites = {"none", "same-origin"}.issuperset(_values(scope, b"sec-fetch-site"))
        if foreign or not (sites or origins):
            return "a page of another site must not do this here: use cutwater or curl, or set a token"
        return ""

    def _known(self, name: str) -> bool:
        """A name that leads here by somebody else's DNS is no address: those cannot be made to lead elsewhere."""
        return (
            not name or name == "localhost" or name.endswith(".localhost") or name in self._names or _is_ip(name)
        )


def guarded(app: App, address: str, token: str, names: Collection[str], setting: str) -> App:
    """What stands at a port bound to `address`. `names`: its own, beside addresses. `setting`: of its token."""
    if token:
        return TokenGuard(app, token, setting)
    return BrowserGuard(app, names, address)


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for one, value in scope["headers"] if one == name]


def name_of(host: str) -> str:
    """Of a Host header or the like, without the port; what is none of these is returned as it is."""
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
    """`address` is a bound one, as numbers."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def open_to_others(address: str, token: str) -> bool:
    """Can anybody on the network ask? `address` is the bound one, as numbers."""
    return not token and not is_loopback(address)


async def answer(send: Send, status: int, body: bytes, kind: str, *headers: tuple[bytes, bytes]) -> None:
    """A whole answer at once."""
    length = str(len(body)).encode()
    plain = [(b"content-type", kind.encode()), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": plain})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, status: int, problem: str, *headers: tuple[bytes, bytes]) -> None:
    """As the API tells each problem. The connection ends: who is refused holds none."""
    body = json.dumps({"detail": problem}).encode()
    await answer(send, status, body, "application/json", (b"connection", b"close"), *headers)
