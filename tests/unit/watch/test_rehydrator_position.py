"""The views' position, as watch asks for it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cutwater.adapters.config.settings import load_settings
from cutwater.core.monitoring.job_status import NewestSnapshot
from cutwater.watch.rehydrator_position import View


def answering(body: object) -> AbstractContextManager[str]:
    """An HTTP server that says the same to everybody."""
    return telling(json.dumps(body))


@contextmanager
def telling(body: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = body.encode()
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


def snapshot(*texts: str) -> NewestSnapshot | None:
    """The newest one of rehydrators whose metrics have these texts. Bars separate an owner from its standby."""
    with ExitStack() as stack:
        groups = [[stack.enter_context(telling(one)) for one in text.split("|")] for text in texts]
        urls = ",".join("|".join(group) for group in groups)
        shares = load_settings({"CUTWATER_WATCH_VIEW_URL": urls}).watch_views

        async def ask() -> NewestSnapshot | None:
            view = View(shares, {})
            try:
                return await view.snapshot()
            finally:
                await view.close()

        return asyncio.run(ask())


def metrics(sequence: float, seconds: float) -> str:
    return (
        "# HELP cutwater_view_snapshot_sequence Sequence.\n"
        f"cutwater_view_snapshot_sequence {sequence}\n"
        f"cutwater_view_snapshot_timestamp_seconds {seconds}\n"
        "cutwater_view_state_bytes 1.5e+06\n"
    )


def test_of_several_shares_the_oldest_snapshot_counts() -> None:
    """Each share counts with its newest; a standby takes none."""
    newest, older = NewestSnapshot(9, 2_000_500, 1_500_000), NewestSnapshot(7, 1_000_000, 1_500_000)
    assert snapshot(metrics(9.0, 2000.5)) == newest
    assert snapshot(metrics(9.0, 2000.5), metrics(7.0, 1000.0)) == older
    nan = metrics(float("nan"), float("nan")).replace("nan", "NaN")
    assert snapshot(f"{nan}|{metrics(9.0, 2000.5)}") == newest


def test_a_share_without_a_snapshot_leaves_it_unknown() -> None:
    nan = metrics(float("nan"), float("nan")).replace("nan", "NaN")
    assert snapshot(nan) is None
    assert snapshot(metrics(9.0, 2.0), nan) is None
    assert snapshot("no metrics") is None
