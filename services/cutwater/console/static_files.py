"""The console's static files, read once at the start: a request can name only what is there."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from cutwater.adapters.http.access import Receive, Scope, Send, answer, refuse

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "LICENSE": "text/plain; charset=utf-8",
}
PREFIX = "/static/"
_ONLY_READ = "the console is read-only: GET and HEAD"


class StaticFile(NamedTuple):
    body: bytes
    kind: str
    etag: bytes


class StaticFiles:
    """Answers with the page and its files; every other path is unknown."""

    def __init__(self, folder: Traversable | None = None) -> None:
        folder = folder or files("cutwater.console") / "static"
        self.by_path = {f"{PREFIX}{name}": one for name, one in _read(folder, "")}
        self.by_path["/"] = self.by_path.pop(f"{PREFIX}index.html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] not in ("GET", "HEAD"):
            await refuse(send, 405, _ONLY_READ, (b"allow", b"GET, HEAD"))
            return
        found = self.by_path.get(scope["path"])
        if found is None:
            await refuse(send, 404, "no such page: the console is at /")
            return
        known = [value for name, value in scope["headers"] if name == b"if-none-match"]
        headers = ((b"etag", found.etag), (b"cache-control", b"no-cache"))
        if found.etag in known:
            await answer(send, 304, b"", found.kind, *headers)
        elif scope["method"] == "HEAD":
            await _head(send, found, headers)
        else:
            await answer(send, 200, found.body, found.kind, *headers)


async def _head(send: Send, found: StaticFile, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    length = str(len(found.body)).encode()
    plain = [(b"content-type", found.kind.encode()), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": 200, "headers": plain})
    await send({"type": "http.response.body", "body": b""})


def _read(folder: Traversable, before: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    for one in sorted(folder.iterdir(), key=lambda each: each.name):
        if one.is_dir():
            found += _read(one, f"{before}{one.name}/")
        elif (kind := TYPES.get(one.name.rpartition(".")[2])) is not None:
            body = one.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode()
            found.append((f"{before}{one.name}", StaticFile(body, kind, etag)))
    return found
