"""The token of the HTTP API: who is let in, and what everybody may ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from cutwater.adapters.http.access import open_to_others
from cutwater.core.access.roles import Role, Tokens, digest_of
from cutwater.rehydrator.access import needed_role
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
    yield TestClient(create_app(view, GENERATION, Metrics(), lambda: 0, Tokens(plain=TOKEN)))
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


ROLE_TOKENS = {role: f"a-token-of-a-{role}" for role in Role}
CHANGING = {"/v1/snapshots": Role.OPERATOR}
"""By route that changes something the role that it needs."""


@pytest.fixture
def with_roles(tmp_path: Path) -> Iterator[FastAPI]:
    job, _ = make_job(tmp_path)
    view = View(Store(tmp_path / "v", job, GENERATION), job)
    named = ",".join(f"n{role.value}:{role}:{digest_of(one.encode()).hex()}" for role, one in ROLE_TOKENS.items())
    yield create_app(view, GENERATION, Metrics(), lambda: 0, Tokens(named, TOKEN))
    view.close()


def test_a_role_is_asked_for_by_what_changes_something(with_roles: FastAPI) -> None:
    """Every route but those that change something is a viewer's; a route that nobody has listed is an owner's."""
    client = TestClient(with_roles)
    posts = {path for path, methods in client.app.openapi()["paths"].items() if "post" in methods}  # type: ignore[attr-defined]
    assert {one for one in posts if needed_role("POST", one) > Role.VIEWER} == set(CHANGING)
    for path in posts:
        for role, token in ROLE_TOKENS.items():
            allowed = role >= CHANGING.get(path, Role.VIEWER)
            answer = client.post(path, headers={"Authorization": f"Bearer {token}"})
            assert (answer.status_code == 403) == (not allowed), (path, role)
    refused = client.post("/v1/snapshots", headers={"Authorization": f"Bearer {ROLE_TOKENS[Role.VIEWER]}"})
    assert refused.json() == {"detail": "this needs the role operator, and n1 is viewer"}
    assert (
        client.post("/v1/new", headers={"Authorization": f"Bearer {ROLE_TOKENS[Role.OPERATOR]}"}).status_code
        == 403
    )
    assert (
        client.delete("/v1/new", headers={"Authorization": f"Bearer {ROLE_TOKENS[Role.OWNER]}"}).status_code == 404
    )


def test_every_role_reads_and_the_token_without_one_does_all(with_roles: FastAPI) -> None:
    """The one token of those who set no roles keeps what it could do."""
    client = TestClient(with_roles)
    for token in (*ROLE_TOKENS.values(), TOKEN):
        shown = {"Authorization": f"Bearer {token}"}
        assert client.get("/openapi.json", headers=shown).status_code == 200
        assert client.get("/v1/milestone", headers=shown).status_code == 503
    answer = client.post("/v1/snapshots", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 409, "it takes none, which only somebody who is let in learns"


def test_the_description_names_the_refusal(with_roles: FastAPI) -> None:
    paths = with_roles.openapi()["paths"]
    assert "403" in paths["/v1/snapshots"]["post"]["responses"]
    assert "403" not in paths["/v1/keys"]["post"]["responses"]
