"""A key in any spelling that a person may write: every route finds the same rows, or refuses what is no key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from cutwater.core.errors import UsageError
from cutwater.core.events.key_columns import KeyColumn, key_texts
from cutwater.rehydrator.app import create_app
from cutwater.rehydrator.cluster.regions import Regions
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.query.change_feed import Changes
from support.views.apiserving import Own, app_of, serving
from support.views.changelogs import GENERATION, Sold, make_job, now_ms
from unit.views.store.test_store import entry, rows

COLUMNS = (KeyColumn("airport", "string"), KeyColumn("number", "long"))
STORED = '["JFK","7"]'
SPELLINGS = (STORED, '[ "JFK", "7" ]', '["JFK", "007"]', '["\\u004aFK","7"]')
HALF_PAIR = '["\\ud800","7"]'
"""JSON can escape it, and no text in UTF-8 has it."""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Own]:
    job = replace(make_job(tmp_path)[0], key_field="", key_columns=COLUMNS)
    made = Own(tmp_path / "v", job)
    made.show(1, rows(job, made.store, [Sold(STORED, 0, 3), Sold('["LGA","7"]', 0, 1)]))
    yield made
    made.close()


@pytest.fixture
def client(own: Own) -> TestClient:
    metrics = Metrics()
    regions = Regions(GENERATION.region, {GENERATION.region: ()}, "", metrics)
    return TestClient(create_app(own.view, GENERATION, metrics, now_ms, regions=regions))


@pytest.mark.parametrize("path", ["/v1/keys", "/v1/global/keys"])
def test_several_keys_in_any_spelling(client: TestClient, path: str) -> None:
    """An answer without rows would say that the key has none. Spellings of one key are one key."""
    for spelling in SPELLINGS:
        answer = client.post(path, json={"keys": [spelling]})
        assert answer.status_code == 200, answer.text
        (one,) = answer.json()["keys"]
        assert (one["key"], [row["pieces"] for row in one["rows"]]) == (STORED, [3]), spelling
    answer = client.post(path, json={"keys": [*SPELLINGS, '["LGA", "7"]'], "rows": 2})
    assert [(one["key"], len(one["rows"])) for one in answer.json()["keys"]] == [(STORED, 1), ('["LGA","7"]', 1)]
    assert answer.json()["next_keys"] == []


@pytest.mark.parametrize("key", ["JFK", '["JFK"]', '["JFK","x"]', HALF_PAIR])
def test_what_is_no_key_is_refused_everywhere(client: TestClient, key: str) -> None:
    """With the status of a wrong request; half a surrogate pair made each of these fail."""
    answers = [
        client.get("/v1/state", params={"key": key}),
        client.get("/v1/global/state", params={"key": key}),
        client.post("/v1/keys", json={"keys": [key]}),
        client.post("/v1/global/keys", json={"keys": [key]}),
        client.get("/v1/changes", params={"key": key}),
    ]
    for answer in answers:
        told = answer.json()["detail"]
        assert (answer.status_code, told.startswith("key: ")) == (422, True), (answer.url, answer.text)


def test_no_column_has_half_a_surrogate_pair() -> None:
    """A whole pair is one character, which a key may have."""
    with pytest.raises(UsageError, match="is no key of this job"):
        key_texts(HALF_PAIR, COLUMNS)
    assert key_texts('["\\ud83d\\ude00","7"]', COLUMNS) == ["\U0001f600", "7"]


def test_changes_of_a_key_in_any_spelling(own: Own) -> None:
    """Otherwise the stream would stay silent for ever."""
    changes = Changes(lambda: own.view.milestone)
    with serving(app_of(own.view, changes=changes)) as url:
        asked = {"key": SPELLINGS[-1]}
        with httpx.stream("GET", f"{url}/v1/changes", params=asked, timeout=60) as answer:
            data = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
            assert "rows" not in next(data), "the reset"
            changed = rows(own.job, own.store, [Sold(STORED, 0, 5), Sold('["LGA","7"]', 0, 2)])
            own.show(2, changed)
            changes.show(entry(own.job, 2).milestone, changed)
            told: dict[str, Any] = next(data)
    assert [(row["key"], row["pieces"]) for row in told["rows"]] == [(STORED, 5)]
