"""Questions to the rehydrator: bounded, and each failure told as whose it is."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.console import view_client
from cutwater.console.view_client import ViewClient
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError

Answer = Callable[[httpx.Request], httpx.Response]


def client(answer: Answer) -> ViewClient:
    settings = Settings(api_token="token-of-the-job")  # type: ignore[arg-type]
    return ViewClient("http://127.0.0.1:1", settings, httpx.MockTransport(answer))


def saying(status: int, **body: object) -> Answer:
    return lambda _request: httpx.Response(status, json=body)


def test_the_view_is_asked_with_its_token() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"token": "g1-local-00000000:42", "rows": []})

    asked = client(answer)
    assert asked.sequence() == 42
    asked.windows("a/..?b", "2026-01-01T00:00:00Z", None, 5)
    asked.top("movements", 7)
    asked.census()
    assert {one.headers["authorization"] for one in seen} == {"Bearer token-of-the-job"}
    assert dict(seen[1].url.params) == {"key": "a/..?b", "limit": "5", "from": "2026-01-01T00:00:00Z"}
    assert [one.url.path for one in seen] == ["/v1/milestone", "/v1/state", "/v1/top", "/v1/sizes"]
    asked.close()


@pytest.mark.parametrize("body", [{"detail": "starting"}, {"token": "nonsense"}, {"token": None}])
def test_a_view_without_a_milestone_has_none(body: dict[str, object]) -> None:
    assert client(saying(200, **body)).sequence() == 0


def test_a_view_that_is_away_has_none() -> None:
    def away(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    assert client(away).sequence() == 0
    with pytest.raises(UnavailableError, match="does not answer"):
        client(away).census()


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, UsageError), (401, UsageError), (404, UsageError), (422, UsageError), (503, UnavailableError)],
)
def test_a_refusal_tells_whose_turn_it_is(status: int, kind: type[CutwaterError]) -> None:
    with pytest.raises(kind):
        client(saying(status, detail="no")).census()


def test_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_client, "BYTES_MAX", 1_000)
    with pytest.raises(UnavailableError, match="more than"):
        client(saying(200, rows="x" * 5_000)).census()
    with pytest.raises(UnavailableError):
        client(lambda _request: httpx.Response(200, text="no JSON")).census()


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(UsageError, match="not UTF-8"):
        client(saying(200)).windows("\ud800", None, None, 1)
