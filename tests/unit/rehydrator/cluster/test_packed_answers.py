"""A peer whose answer is packed: a few bytes that unpack to very many are never unpacked."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import httpx
import pytest
from fastapi import Response

from cutwater.core.job.shards import ShardMap
from cutwater.rehydrator.cluster.peers import Peers
from cutwater.rehydrator.metrics.metrics import Metrics

BOMB = gzip.compress(b"x" * (32 << 20))
"""Less than the bound on an answer, packed or not: only that it is packed is wrong."""


class Handler(BaseHTTPRequestHandler):
    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.asked.append(self.headers["accept-encoding"])
        self.send_response(200)
        self.send_header("content-length", str(len(BOMB)))
        self.send_header("content-encoding", "gzip")
        self.end_headers()
        self.wfile.write(BOMB)

    def log_message(self, *_said: object) -> None: ...


@pytest.fixture
def peer() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_packed_answer_is_none(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain bytes are asked for, and whoever sends others has not answered; nothing is unpacked."""
    unpacked: list[int] = []

    def decode(_self: object, data: bytes) -> bytes:
        unpacked.append(len(data))
        return data

    monkeypatch.setattr("httpx._decoders.GZipDecoder.decode", decode)
    peers = Peers(ShardMap(), {}, "", "", Metrics())

    async def ask() -> Response | str:
        return await peers._ask(peer, "/v1/state", 20, None)

    assert asyncio.run(ask()) == httpx.DecodingError.__name__
    assert Handler.asked == ["identity"]
    assert unpacked == []
