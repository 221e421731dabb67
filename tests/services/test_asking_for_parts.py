"""Scans of some shards and windows, several keys, and top rows, as HTTP answers them from one view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from changelogs import HOUR_MS, Sold
from test_rehydrator_api import Served

from cutwater.adapters.hashing import key_hash
from cutwater.views import view as viewing

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
