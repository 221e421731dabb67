"""Scans of some shards and windows, several keys, and top rows, as HTTP answers them from one view."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError

from cutwater.adapters.hashing import key_hash
from cutwater.rehydrator.http_api.errors import handle_invalid_request
from cutwater.rehydrator.routes import keys_and_top
from cutwater.views.query import view as viewing
from support.views.changelogs import HOUR_MS, Sold
from unit.rehydrator.test_app import Served

SHOPS = [f"s{number}" for number in range(30)]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    one = Served(tmp_path)
    yield one
    one.view.close()


def scanned(served: Served, **query: Any) -> tuple[list[tuple[str, int]], list[int]]:
    """(Key, pieces) of every row, and how many each page had."""
    found, sizes, after = [], [], None
    while True:
        page = served.get("/v1/state", **query, **({"after": after} if after else {})).json()
        found += [(row["key"], row["pieces"]) for row in page["rows"]]
        sizes.append(len(page["rows"]))
        if (after := page["next"]) is None:
            return found, sizes


def test_scan_by_shards_and_windows(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards divide the rows; a page that has looked at enough ends, with a `next`, however little it found."""
    served.show(1, [Sold(shop, hour, hour) for shop in SHOPS for hour in range(4)])
    monkeypatch.setattr(viewing, "SCAN_ROWS_MAX", 25)
    halves = []
    for shards in ("0-511", "512-1023"):
        rows, sizes = scanned(served, shards=shards, from_=HOUR_MS, to=3 * HOUR_MS)
        halves.append(rows)
        assert len(sizes) > 2
    assert sorted(halves[0] + halves[1]) == sorted((shop, hour) for shop in SHOPS for hour in (1, 2))
    assert {shop for shop, _ in halves[0]} == {shop for shop in SHOPS if key_hash(shop) % 1024 < 512}
    one = key_hash(SHOPS[0]) % 1024
    assert (SHOPS[0], 3) in scanned(served, shards=one)[0]
    assert 0 in scanned(served, shards=one)[1], "an empty page is no end"


@pytest.mark.parametrize("shards", ["", "a", "-1", "1-", "5-4", "0-1024", "1024", "99999", "1,2", "0-1\n"])
def test_shards_that_are_none(served: Served, shards: str) -> None:
    served.show(1, [])
    assert served.get("/v1/state", shards=shards).status_code == 422


def test_the_documented_bounds_are_those_that_hold(served: Served) -> None:
    """Descriptions name numbers that are constants elsewhere."""
    paths = served.client.get("/openapi.json").json()["paths"]
    assert f"{viewing.SCAN_ROWS_MAX:,} stored rows" in paths["/v1/state"]["get"]["description"]
    assert f"{viewing.TOP_ROWS_MAX:,} stored rows" in " ".join(paths["/v1/top"]["get"]["description"].split())


def gone_on(served: Served, keys: list[str], **asked: Any) -> tuple[dict[str, list[int]], int]:
    """Pieces of every key, asked for until nothing is left, and by how many questions."""
    found: dict[str, list[int]] = {key: [] for key in keys}
    open_: list[dict[str, Any]] = [{"keys": keys, **asked}]
    questions = 0
    while open_:
        question = open_.pop()
        answer = served.client.post("/v1/keys", json=question)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert sum(len(one["rows"]) for one in body["keys"]) <= question.get("rows", 10_000)
        for one in body["keys"]:
            found[one["key"]] += [row["pieces"] for row in one["rows"]]
            if one["next_from"] is not None:
                open_.append({**question, "keys": [one["key"]], "from": one["next_from"]})
        if body["next_keys"]:
            open_.append({**question, "keys": body["next_keys"]})
        questions += 1
        assert questions < 200, "it comes to an end"
    return found, questions


def test_several_keys_at_once(served: Served) -> None:
    """In the order asked for, each once, one without rows too; at one milestone, with its owner's partitions."""
    served.show(1, [Sold(shop, hour, hour) for shop in SHOPS for hour in range(6)])
    asked = {"keys": ["s3", "nobody", "s1", "s3"], "from": HOUR_MS, "to": "1970-01-01T03:00:00Z"}
    answer = served.client.post("/v1/keys", json=asked, params={"at_least": "g1-local-00000000:1"}).json()
    assert [(one["key"], [row["pieces"] for row in one["rows"]]) for one in answer["keys"]] == [
        ("s3", [1, 2]),
        ("nobody", []),
        ("s1", [1, 2]),
    ]
    assert answer["keys"][0]["rows"] == served.get("/v1/state/s3", from_=HOUR_MS, to=3 * HOUR_MS).json()["rows"]
    milestone = served.get("/v1/milestone").json()
    assert answer["milestones"] == [milestone | {"partitions": None}]
    assert {one["milestone"] for one in answer["keys"]} == {0}


@pytest.mark.parametrize(("limit", "rows"), [(100, 10_000), (2, 10_000), (100, 7), (2, 3), (1, 1)])
def test_several_keys_go_on_to_their_end(served: Served, limit: int, rows: int) -> None:
    """By `next_from` and `next_keys` everything comes, once, whatever the bounds."""
    served.show(1, [Sold(shop, hour, hour) for shop in SHOPS[:5] for hour in range(6)])
    found, questions = gone_on(served, SHOPS[:7], limit=limit, rows=rows)
    assert found == {shop: list(range(6)) if shop in SHOPS[:5] else [] for shop in SHOPS[:7]}
    assert (questions == 1) == (limit >= 6 and rows >= 30)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"keys": []}', 422),
        (b'{"keys": ["a"], "limit": 0}', 422),
        (b'{"keys": ["a"], "limit": NaN}', 422),
        (b'{"keys": ["a"], "rows": 10001}', 422),
        (b'{"keys": ["a"], "from": "yesterday"}', 422),
        (b'{"keys": ["a"], "from": "\\ud800"}', 422),
        (b'{"keys": ["a"], "form": 1}', 422),
        (b'{"keys": ["\\ud800"]}', 422),
        (b'{"\\ud800": 1}', 422),
        (b'{"keys": ["a"], "limit": ' + b"9" * 5_000 + b"}", 400),
        (b"[" * 100_000, 400),
        (b"\xff", 400),
        (b"", 422),
        (b'{"keys": ["' + b"a" * (1 << 20) + b'"]}', 413),
        (b'{"keys": [' + b'"a",' * 1_000 + b'"a"]}', 422),
    ],
)
def test_bodies_that_are_no_question(served: Served, body: bytes, status: int) -> None:
    """Each is answered as the mistake it is, in one line; none makes the service fail."""
    served.show(1, [])
    answer = served.client.post("/v1/keys", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert isinstance(answer.json()["detail"], str)
    assert len(answer.content) < 1_000


def test_top_rows_by_a_measure(served: Served) -> None:
    """The largest first, equal ones by key and window; `asc` the smallest; of the windows asked for."""
    served.show(1, [Sold("b", 1, 5), Sold("a", 2, 5), Sold("a", 1, 5), Sold("c", 1, 9), Sold("d", 5, 99)])

    def top(**query: Any) -> list[tuple[str, int]]:
        body = served.get("/v1/top", measure="takings", to=3 * HOUR_MS, **query).json()
        assert body["milestones"] == [served.get("/v1/milestone").json() | {"partitions": None}]
        return [(row["key"], row["pieces"]) for row in body["rows"]]

    assert top() == [("c", 9), ("a", 5), ("a", 5), ("b", 5)]
    assert top(limit=2) == [("c", 9), ("a", 5)]
    assert top(order="asc", limit=3, from_=HOUR_MS) == [("a", 5), ("a", 5), ("b", 5)]
    rows = served.get("/v1/top", measure="pieces", to=3 * HOUR_MS).json()["rows"]
    assert rows[1] == served.get("/v1/state/a").json()["rows"][0]


def test_top_refuses_what_it_cannot_answer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many rows, and too many rankings at once, are said; a wrong answer is not given."""
    served.show(1, [Sold(shop, hour, hour) for shop in SHOPS for hour in range(20)])
    assert "sales, pieces, takings, mean" in served.get("/v1/top", measure="profit").json()["detail"]
    assert served.get("/v1/top").status_code == 422
    for query in ({"order": "up"}, {"limit": 0}, {"limit": 1_001}, {"from": "yesterday"}):
        assert served.get("/v1/top", measure="pieces", **query).status_code == 422
    monkeypatch.setattr(viewing, "TOP_ROWS_MAX", 300)
    refused = served.get("/v1/top", measure="pieces")
    assert refused.status_code == 422
    assert "fewer windows" in refused.json()["detail"]
    assert served.get("/v1/top", measure="pieces", from_=17 * HOUR_MS, limit=1).json()["rows"][0]["pieces"] == 19
    monkeypatch.setattr(keys_and_top, "TOPS_MAX", 0)
    assert served.get("/v1/top", measure="pieces").status_code == 503


def test_nothing_shown_yet(served: Served) -> None:
    """As every question about the state: 503 with the reason."""
    assert served.client.post("/v1/keys", json={"keys": ["a"]}).status_code == 503
    assert served.get("/v1/top", measure="pieces").status_code == 503
    assert served.get("/v1/state", shards="0-3").status_code == 503


def test_a_field_named_by_half_a_character_is_answered() -> None:
    """What cannot be encoded is in the answer's text, however the parser of the day hands it on."""
    error = RequestValidationError([{"loc": ("body", "a\ud800"), "msg": "is not known"}])
    answer = handle_invalid_request(None, error)  # type: ignore[arg-type]
    assert (answer.status_code, json.loads(answer.body)["detail"]) == (422, "a?: is not known")
