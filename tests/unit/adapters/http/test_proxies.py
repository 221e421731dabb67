"""A proxy that the environment names: the clients of the HTTP API leave it aside, so it sees no token."""

from __future__ import annotations

import ast
import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cutwater.adapters.config.settings import load_settings
from cutwater.cli import rehydrator_api
from cutwater.cli.state import snapshots
from cutwater.client.export import part_owners
from cutwater.client.export.stream import open_export
from cutwater.core.errors import CutwaterError
from cutwater.demo.verdict import served_rows
from cutwater.local.api_probe import api_answers
from cutwater.watch.rehydrator_position import View
from support.views.apiserving import Own, app_of, serving
from support.views.changelogs import Sold, make_job
from unit.views.store.test_store import rows

TOKEN = "a-token-of-some-length"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
SERVICES = Path(__file__).parents[4] / "services" / "cutwater"
OTHERS = {
    "adapters/events/registry.py",  # a registry and a webhook are somebody else's, and may be behind a proxy
    "watch/webhook.py",
}
_CALL = re.compile(r"^httpx\.(get|post|request|stream|Client|AsyncClient)$")


class Proxy:
    """Answers nothing, and writes down what it sees."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                proxy.seen.append(f"{self.requestline} {self.headers}")
                self.send_error(502)

            do_POST = do_CONNECT = do_GET

            def log_message(self, *_said: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    one = Proxy()
    for name in NAMES:
        monkeypatch.setenv(name, one.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield one
    one.server.shutdown()
    one.server.server_close()


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CUTWATER_API_TOKEN", TOKEN)
    job, _ = make_job(tmp_path)
    own = Own(tmp_path / "v", job)
    own.show(1, rows(job, own.store, [Sold("JFK", 1, 100)]))
    with serving(app_of(own.view, TOKEN)) as url:
        yield url
    own.close()


def _exported(url: str) -> object:
    with open_export(url, HEADERS) as found:
        return [row for piece in found.pieces for row in piece.rows()]


def _watched(url: str) -> int:
    view = View({url: ()}, HEADERS)

    async def ask() -> int:
        try:
            return await view.sequence()
        finally:
            await view.close()

    return asyncio.run(ask())


CLIENTS: dict[str, Callable[[str], object]] = {
    "up": api_answers,
    "get": lambda url: rehydrator_api.ask(f"{url}/v1/state/JFK", {}, HEADERS)["rows"],
    "snapshots": lambda url: snapshots._ask("GET", f"{url}/v1/milestone", load_settings()),
    "watch": _watched,
    "demo": lambda url: list(served_rows(url, HEADERS)),
    "export": _exported,
    "holders": lambda url: part_owners._answer(f"{url}/v1/milestone", HEADERS, 20),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_no_client_asks_through_it(client: str, api: str, proxy: Proxy) -> None:
    """Each gets its answer, and the proxy sees nothing."""
    assert CLIENTS[client](api)
    assert proxy.seen == []


@pytest.mark.variations
@pytest.mark.parametrize("client", CLIENTS)
def test_a_setting_asks_for_it(client: str, api: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the API is reached by a proxy only, a setting says so."""
    monkeypatch.setenv("CUTWATER_API_BY_PROXY", "true")
    with suppress(CutwaterError):
        assert not CLIENTS[client](api)
    assert proxy.seen


def test_a_proxy_that_cannot_be_used_is_no_reason_to_fail(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one of a kind that httpx lacks a package for."""
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    assert all(client(api) for client in CLIENTS.values())


def test_every_client_of_this_project_says_how_it_asks() -> None:
    """No call of httpx that heeds the environment, but in the files that ask somebody else."""
    careless = []
    for path in SERVICES.rglob("*.py"):
        if str(path.relative_to(SERVICES)) in OTHERS:
            continue
        for one in ast.walk(ast.parse(path.read_text())):
            if isinstance(one, ast.Call) and _CALL.match(ast.unparse(one.func)):
                told = {word.arg or ast.unparse(word.value).partition("(")[0] for word in one.keywords}
                if not told & {"trust_env", "direct_options"}:
                    careless.append(f"{path.relative_to(SERVICES)}:{one.lineno}")
    assert careless == []
