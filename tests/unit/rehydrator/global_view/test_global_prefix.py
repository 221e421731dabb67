"""Leading columns of a key choose rows of all regions, page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from cutwater.adapters.config.rehydrator_urls import Api
from cutwater.core.events.key_columns import KeyColumn, key_text
from cutwater.rehydrator.app import create_app
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.query.view import State, Status, View
from support.views.apiserving import Own
from support.views.changelogs import GENERATION, Sold, make_job, now_ms
from unit.rehydrator.global_view.test_global_bounds import US, Says, asking, elsewhere, saying
from unit.views.store.test_store import rows

COLUMNS = (KeyColumn("airport", "string", nullable=True), KeyColumn("carrier", "string", nullable=True))
KEYS = [(airport, carrier) for airport in ("JFK", "JF", None, "") for carrier in ("UA", "DL", None)]


@pytest.fixture
def views(tmp_path: Path) -> Iterator[tuple[View, View]]:
    """Two regions: the first three quarters of the keys, and the last three, each with two windows."""
    job = replace(make_job(tmp_path)[0], key_field="", key_columns=COLUMNS)
    made = []
    for name, keys in (("own", KEYS[:9]), ("us", KEYS[3:])):
        one = Own(tmp_path / name, job)
        sold = [Sold(key_text(key), hour, 1) for key in keys for hour in (0, 40 * 24)]
        one.show(1, rows(job, one.store, sold))
        one.view.status = Status(State.FOLLOWING)
        made.append(one)
    yield made[0].view, made[1].view
    for one in made:
        one.close()


def region(view: View, knows_prefixes: bool) -> Says:
    client = TestClient(create_app(view, GENERATION, Metrics(), now_ms))

    def says(to: BaseHTTPRequestHandler) -> None:
        asked = to.path if knows_prefixes else to.path.replace("prefix=", "unknown=")
        answer = client.get(asked)
        told: dict[str, Any] = answer.json()
        if answer.status_code == 200:
            told["milestones"][0] |= {"token": f"{US}:1", "generation": US}
            told["lineage"] = US
        saying(json.dumps(told).encode(), answer.status_code)(to)

    return says


@pytest.mark.parametrize("knows_prefixes", [True, False])
@pytest.mark.parametrize("limit", [1, 100])
def test_leading_columns_choose_rows_of_all_regions(
    views: tuple[View, View], limit: int, knows_prefixes: bool
) -> None:
    """All rows with them and no others; also beside a region of a version that knows no prefixes."""
    own, us = views
    with elsewhere(region(us, knows_prefixes)) as there, asking(own, Api(there.url)) as here:
        for airport in ("JFK", "JF", None, "", "nobody"):
            query: dict[str, Any] = {
                "limit": limit,
                **({"null": "airport"} if airport is None else {"airport": airport}),
            }
            found: list[tuple[str | None, str | None, int]] = []
            while True:
                answer = here.ask(**query)
                assert answer.status_code == 200, answer.text
                found += [(row["airport"], row["carrier"], row["pieces"]) for row in answer.json()["rows"]]
                if (following := answer.json()["next"]) is None:
                    break
                query["after"] = following
            regions = {key: (key in KEYS[:9]) + (key in KEYS[3:]) for key in KEYS}
            wanted = [(*key, regions[key]) for key in KEYS for _ in range(2) if key[0] == airport]
            assert sorted(found, key=str) == sorted(wanted, key=str)
