"""The HTTP ports under clients that send half of what they should: nobody else notices."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from prometheus_client import CollectorRegistry, Gauge

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.http.access import BrowserGuard
from cutwater.adapters.http.metrics_server import serve
from cutwater.adapters.http.server import (
    API_BOUNDS,
    HEAD_BYTES_MAX,
    METRICS_BOUNDS,
    HttpMetrics,
    HttpServer,
    Times,
    listen,
)
from cutwater.core.util.connection_limits import Bounds
from cutwater.local.machine.ports import free_ports
from support.views.apiserving import Own, app_of
from support.views.changelogs import Sold, make_job, until
from unit.views.store.test_store import rows

TOKEN = "a-token-of-some-length"
SHOWN = {"Authorization": f"Bearer {TOKEN}"}
HALF = b"GET /v1/state/JFK HTTP/1.1\r\nHost: localhost\r\nX-Hal"
QUICK = Times(head_s=0.3, body_s=0.3)
ask = partial(httpx.get, verify=False)  # without reading a file of certificates each time
LOG: Any = structlog.get_logger()


class Port:
    """One guarded port, for as long as a block runs."""

    def __init__(self, app: Any, bounds: Bounds = API_BOUNDS, times: Times | None = None) -> None:
        self.registry = CollectorRegistry()
        listener = listen("127.0.0.1", 0)
        self.number = int(listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.number}"
        self.server = HttpServer(app, listener, bounds, HttpMetrics(self.registry), times)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()

    def ended(self, reason: str) -> float:
        return self.registry.get_sample_value("cutwater_http_ended_total", {"reason": reason}) or 0

    @property
    def open(self) -> float:
        return self.registry.get_sample_value("cutwater_http_connections") or 0

    def __enter__(self) -> Port:
        return self

    def __exit__(self, *_error: object) -> None:
        self.server.stop()
        self.thread.join(20)
        assert not self.thread.is_alive()


@contextmanager
def half_requests(port: int, count: int, sent: bytes = HALF) -> Iterator[list[socket.socket]]:
    """So many clients that send this, and then nothing for as long as the block runs."""
    with ExitStack() as stack:
        made = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(count)]
        for one in made:
            one.sendall(sent)
        yield made


def said(one: socket.socket) -> bytes:
    """All that comes until the server ends the connection."""
    one.settimeout(30)
    found = b""
    try:
        while piece := one.recv(65536):
            found += piece
    except ConnectionResetError:
        pass
    return found


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Own]:
    job, _ = make_job(tmp_path)
    one = Own(tmp_path / "v", job)
    one.show(1, rows(job, one.store, [Sold("JFK", hour, 100 + hour) for hour in range(3)]))
    yield one
    one.close()


@pytest.mark.variations
@pytest.mark.parametrize(
    "sent", [HALF, b"", b"\r\n", b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"]
)
def test_half_requests_keep_nobody_out(own: Own, sent: bytes) -> None:
    """Twice as many as may work: a read with the token is right, health answers all, no thread is made for any."""
    with Port(app_of(own.view, TOKEN)) as port:
        asked = f"{port.url}/v1/state/JFK"
        right = ask(asked, headers=SHOWN).json()["rows"]
        threads = threading.active_count()
        with half_requests(port.number, 2 * API_BOUNDS.working, sent):
            until(lambda: port.open >= API_BOUNDS.by_address, "as many as may be open")
            with httpx.Client(headers=SHOWN, verify=False) as client:
                assert [client.get(asked).json()["rows"] for _ in range(20)] == [right] * 20
            for _ in range(20):
                assert ask(asked, headers=SHOWN).json()["rows"] == right
                assert ask(f"{port.url}/healthz").status_code == 200
                assert ask(f"{port.url}/readyz").status_code in (200, 503)
            assert threading.active_count() <= threads + 1  # what the application itself reads with
            assert port.open <= API_BOUNDS.every


def test_health_is_answered_while_all_work_is_taken(own: Own) -> None:
    """As many as may ask at a time wait for a milestone: others hear so at once, health is as it was."""
    bounds = Bounds(every=12, by_address=12, working=4, working_by_address=4)
    waits = (
        f"GET /v1/milestone?at_least=g1-local-00000000:9&wait_ms=30000 HTTP/1.1\r\nHost: x\r\n{_header()}\r\n\r\n"
    )
    with Port(app_of(own.view, TOKEN), bounds) as port, half_requests(port.number, 4, waits.encode()) as waiting:
        until(lambda: port.registry.get_sample_value("cutwater_http_requests") == 4, "all at work")
        refused = ask(f"{port.url}/v1/milestone", headers=SHOWN)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "requests are in progress already" in refused.json()["detail"]
        assert ask(f"{port.url}/healthz").status_code == 200
        waiting[0].close()
        until(lambda: ask(f"{port.url}/v1/milestone", headers=SHOWN).is_success, "room for one more")


def _header() -> str:
    return f"Authorization: Bearer {TOKEN}"


def test_each_part_of_a_request_has_its_time(own: Own) -> None:
    """A head that does not come whole, a body, nothing at all, and bytes behind an answer that begin nothing."""
    json = b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    body = b"POST /v1/keys HTTP/1.1\r\nHost: localhost\r\n" + json
    health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Port(app_of(own.view), times=QUICK) as port, ExitStack() as stack:
        sent = (HALF, body, b"", health + b"\r\n", health + HALF)
        head, late, silent, rest, second = (
            stack.enter_context(half_requests(port.number, 1, one))[0] for one in sent
        )
        assert said(head).startswith(b"HTTP/1.1 408 ")
        assert said(late).startswith(b"HTTP/1.1 408 ")
        assert said(silent) == b""
        assert said(rest).startswith(b"HTTP/1.1 200 ")
        assert b"\r\nHTTP/1.1 408 " in said(second).replace(b"}HTTP", b"}\r\nHTTP")
        assert (port.ended("head-time"), port.ended("body-time")) == (4, 1)
        until(lambda: port.open == 0, "all to be closed")


def test_a_head_has_a_size(own: Own) -> None:
    """Header lines without end are refused, long before they fill the memory; a long URL is read."""
    with Port(app_of(own.view)) as port:
        with half_requests(port.number, 1, HALF + b"x" * HEAD_BYTES_MAX) as (one,):
            assert said(one).startswith(b"HTTP/1.1 431 ")
        assert port.ended("head-size") == 1
        assert ask(f"{port.url}/v1/state/{'k' * 60_000}").json()["rows"] == []
        body = {"keys": ["JFK"], "padding": "x" * (HEAD_BYTES_MAX + 9_000)}
        assert httpx.post(f"{port.url}/v1/keys", json=body).status_code != 431


def test_what_is_no_http(own: Own, capfd: pytest.CaptureFixture[str]) -> None:
    """400 and counted; nothing that a stranger sends writes to the log."""
    with Port(app_of(own.view)) as port:
        with half_requests(port.number, 3, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03") as made:
            assert all(said(one).startswith(b"HTTP/1.1 400 ") for one in made)
        assert port.ended("malformed") == 3
        pipelined = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500
        with half_requests(port.number, 1, pipelined) as (one,):
            assert said(one).count(b"HTTP/1.1 200 ") < 500
        assert ask(f"{port.url}/healthz").status_code == 200
    assert capfd.readouterr() == ("", "")


def test_who_does_not_take_an_answer_is_cut_off() -> None:
    """An answer that is not taken for too long is given up; one that is taken slowly comes whole."""

    async def much(_scope: Any, _receive: Any, send: Callable[..., Any]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(64):
            await send({"type": "http.response.body", "body": b"x" * (1 << 20), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    wants = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Port(much, times=Times(stalled_s=0.5)) as port:
        with half_requests(port.number, 1, wants):
            until(lambda: port.ended("stalled") == 1, "the end of an answer that nobody takes")
        assert len(ask(port.url).content) == 64 << 20


# --- the ports of metrics


@contextmanager
def metrics_port(**env: str) -> Iterator[int]:
    registry = CollectorRegistry()
    Gauge("of_this_test", "One.", registry=registry).set(7)
    (port,) = free_ports(1)
    close = serve(registry, load_settings({"CUTWATER_WATCH_PORT": str(port), **env}), "CUTWATER_WATCH_PORT", LOG)
    try:
        yield port
    finally:
        close()


def scraped(port: int, path: str = "/metrics", **headers: str) -> httpx.Response:
    return ask(f"http://127.0.0.1:{port}{path}", headers=headers)


def test_half_requests_at_a_metrics_port() -> None:
    """150 of them are no threads, and no scrape fails."""
    with metrics_port() as port:
        assert scraped(port).status_code == 200
        threads = threading.active_count()
        with half_requests(port, 150):
            for _ in range(20):
                assert "of_this_test 7.0" in scraped(port).text
                assert scraped(port, "/healthz").status_code == 200
            assert threading.active_count() == threads
            held = next(one for one in scraped(port).text.splitlines() if one.startswith("cutwater_http_conn"))
            assert float(held.split()[1]) <= METRICS_BOUNDS.every
    with pytest.raises(httpx.ConnectError):
        scraped(port)


def test_a_metrics_port_may_ask_for_a_token() -> None:
    """None unless it is set, whatever the API asks for. Health is open, other paths are none."""
    with metrics_port(CUTWATER_API_TOKEN=TOKEN) as port:
        assert scraped(port).status_code == 200
        assert scraped(port, "/other").status_code == 404
        assert httpx.post(f"http://127.0.0.1:{port}/metrics").status_code == 405
    for env in (
        {"CUTWATER_METRICS_TOKEN": TOKEN},
        {"CUTWATER_HOST": "0.0.0.0", "CUTWATER_METRICS_TOKEN": TOKEN},
        {"CUTWATER_HOST": "0.0.0.0", "CUTWATER_API_TOKEN": f"{TOKEN}-2", "CUTWATER_METRICS_TOKEN": TOKEN},
    ):
        with metrics_port(**env) as port:
            assert scraped(port).status_code == scraped(port, "/other").status_code == 401
            assert scraped(port, Authorization=f"Bearer {TOKEN}-2").status_code == 401
            assert "of_this_test 7.0" in scraped(port, **SHOWN).text
            assert scraped(port, "/readyz").status_code == 200


def test_the_token_of_metrics_opens_no_state(own: Own) -> None:
    """Whoever scrapes needs no token of the state: the API shows it the metrics, and nothing else."""
    with Port(app_of(own.view, f"{TOKEN}-api", metrics_token=TOKEN)) as port:
        assert ask(f"{port.url}/metrics", headers=SHOWN).status_code == 200
        assert ask(f"{port.url}/v1/state", headers=SHOWN).status_code == 401
        both = {"Authorization": f"Bearer {TOKEN}-api"}
        assert ask(f"{port.url}/metrics", headers=both).status_code == 200


# --- pages in a browser


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_a_name_that_somebody_else_made_lead_here_is_refused(own: Own, address: str) -> None:
    """DNS rebinding: without a token only addresses, localhost and what is set are asked by.

    That holds on the loopback; and wherever the port is bound, once a name is set.
    """
    with Port(BrowserGuard(app_of(own.view), {"view.example.org"}, address)) as port:
        for name in (
            "127.0.0.1",
            "localhost",
            "localhost:8321",
            "[::1]:8321",
            "x.localhost",
            "View.example.org:80",
        ):
            assert ask(f"{port.url}/v1/milestone", headers={"Host": name}).status_code == 200, name
        for name in (
            "evil.example",
            "evil.example:8321",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "[x",
        ):
            refused = ask(f"{port.url}/v1/milestone", headers={"Host": name})
            assert refused.status_code == 403, name
            assert "CUTWATER_API_HOSTS" in refused.json()["detail"]
    with Port(BrowserGuard(app_of(own.view), (), address)) as port:
        other = ask(f"{port.url}/v1/milestone", headers={"Host": "view-1:8321"})
        assert other.status_code == (403 if address == "127.0.0.1" else 200)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_no_page_takes_a_snapshot(own: Own, address: str) -> None:
    """What changes something is refused from a page of another site, however the browser says so; curl may."""
    with Port(BrowserGuard(app_of(own.view), (), address)) as port:

        def posted(**headers: str) -> int:
            plain = {name.replace("_", "-"): one for name, one in headers.items()}
            return httpx.post(f"{port.url}/v1/snapshots", headers=plain).status_code

        assert posted() == 409  # this one takes none
        assert posted(Origin=port.url, Sec_Fetch_Site="same-origin") == 409
        assert posted(Origin="http://evil.example", Sec_Fetch_Site="cross-site") == 403
        assert posted(Origin="http://evil.example") == 403
        assert posted(Origin="null") == 403
        assert posted(Origin="http://[") == 403, "no origin of a page, and no bug"
        assert posted(Origin=f"http://127.0.0.1:{port.number + 1}") == 403
        assert posted(Sec_Fetch_Site="cross-site") == 403
        assert posted(Sec_Fetch_Site="same-site", Content_Type="text/plain") == 403
