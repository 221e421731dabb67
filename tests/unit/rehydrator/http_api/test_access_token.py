"""The token of the HTTP API: who is let in, and what everybody may ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from cutwater.adapters.http.access import open_to_others
from cutwater.rehydrator.app import create_app
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.query.view import State, Status, View
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, make_job

TOKEN = "a-token-of-some-length"
EMPTY = "no milestone can be shown yet: following"
"""What a view says that lets in whoever asks, and has nothing to show."""
GUARDED = {
    "/v1/state/JFK": (503, EMPTY),
    "/v1/state": (503, EMPTY),
    "/v1/milestone": (503, EMPTY),
    "/metrics": (200, "# HELP cutwater_view"),
    "/docs": (200, "<html>"),
    "/openapi.json": (200, "Cutwater rehydrator"),
    "/no/such": (404, "Not Found"),
    "/healthz/": (307, ""),
}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[TestClient]:
    job, _ = make_job(tmp_path)
    view = View(Store(tmp_path / "v", job, GENERATION), job)
    view.status = Status(State.FOLLOWING)
    yield TestClient(create_app(view, GENERATION, Metrics(), lambda: 0, TOKEN))
    view.close()


@pytest.mark.parametrize("path", GUARDED)
def test_every_route_asks_for_the_token(guarded: TestClient, path: str) -> None:
    """Without the token 401, a JSON body that says what to send, and nothing about the state; with it, its own."""
    answer = guarded.get(path, follow_redirects=False)
    assert answer.status_code == 401
    assert "Authorization: Bearer" in answer.json()["detail"]
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert TOKEN not in answer.text
    let_in = guarded.get(path, headers={"Authorization": f"Bearer {TOKEN}"}, follow_redirects=False)
    status, says = GUARDED[path]
    assert let_in.status_code == status
    assert says in let_in.text


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_open(guarded: TestClient, path: str) -> None:
    """Whoever restarts or balances services holds no token."""
    assert guarded.get(path).status_code in (200, 503)


@pytest.mark.parametrize(
    "shown", [TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", "Bearer ", "Bearer", "Bearer é"]
)
def test_anything_but_the_token_is_refused(guarded: TestClient, shown: str) -> None:
    """Another scheme, a part of the token, more than it, and bytes that are no ASCII: 401, never an error."""
    answer = guarded.get("/v1/milestone", headers={"Authorization": shown.encode("utf-8")})  # type: ignore[dict-item]
    assert answer.status_code == 401


def test_two_headers_are_refused(guarded: TestClient) -> None:
    """Of two tokens a proxy may have checked the other one."""
    both = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer other")]
    assert guarded.get("/v1/milestone", headers=both).status_code == 401


def test_who_is_warned() -> None:
    """An address that others reach, without a token; never the loopback, in both families."""
    assert open_to_others("0.0.0.0", "")
    assert open_to_others("::", "")
    assert open_to_others("fe80::1%eth0", "")
    assert not open_to_others("0.0.0.0", TOKEN)
    assert not open_to_others("127.0.0.1", "")
    assert not open_to_others("::1", "")
