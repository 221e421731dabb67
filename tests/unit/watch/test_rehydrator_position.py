"""The views' position, as watch asks for it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cutwater.adapters.config.settings import load_settings
from cutwater.watch.rehydrator_position import View


@contextmanager
def answering(body: object) -> Iterator[str]:
    """An HTTP server that says the same to everybody."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_arguments: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def asked(*urls: str) -> int:
    shares = load_settings({"CUTWATER_WATCH_VIEW_URL": ",".join(urls)}).watch_views

    async def ask() -> int:
        view = View(shares, {})
        try:
            return await view.sequence()
        finally:
            await view.close()

    return asyncio.run(ask())


@pytest.mark.parametrize(("second", "sequence"), [("g1-local-00000000:9", 7), ("g1-local-00000000:3", 3)])
def test_the_slowest_of_several_counts(second: str, sequence: int) -> None:
    """The state is as old as its oldest part."""
    with answering({"token": "g1-local-00000000:7"}) as one, answering({"token": second}) as other:
        assert asked(one, other) == sequence
        assert asked(one) == 7


@pytest.mark.slow
def test_a_standby_shows_its_owners_part() -> None:
    """The part is as new as the newest of those that hold it: that one answers readers."""
    token = "g1-local-00000000"
    with (
        answering({"token": f"{token}:5"}) as owner,
        answering({"token": f"{token}:7"}) as standby,
        answering({"token": f"{token}:6"}) as other,
    ):
        assert asked(f"{owner}|{standby}", other) == 6
        assert asked(f"http://127.0.0.1:1 | {owner}", other) == 5
        assert asked(f"{owner}|{standby}") == 7
        assert asked("http://127.0.0.1:1|http://127.0.0.1:2", other) == 0


@pytest.mark.variations
@pytest.mark.parametrize("nonsense", [{"token": 7}, {"token": "g1"}, [], None])
def test_one_that_cannot_say_counts_as_nothing(nonsense: object) -> None:
    """Away, or not a rehydrator at all."""
    with answering({"token": "g1-local-00000000:7"}) as one:
        assert asked(one, "http://127.0.0.1:1") == 0
        with answering(nonsense) as other:
            assert asked(one, other) == 0
