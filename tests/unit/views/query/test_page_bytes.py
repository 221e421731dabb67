"""Pages of large rows: bounded in bytes as well as in rows, so that a request does not fill the memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cutwater.core.job.windows import WindowSpec
from cutwater.views.query import view as views
from cutwater.views.query.view import View
from cutwater.views.store import pinned_rows
from cutwater.views.store.pinned_rows import PinnedRows
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, HOUR_MS, Sold, make_job
from unit.views.store.test_store import entry, rows

HOURS, SHOPS = 30, ("a", "b", "c")
BYTES = 100
"""A few rows of this test."""


@pytest.fixture(params=[1, 2], ids=["tumbling", "sliding"])
def view(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[View]:
    hours = request.param
    job = replace(make_job(tmp_path)[0], window=WindowSpec(hours * HOUR_MS, HOUR_MS), retention_ms=900 * HOUR_MS)
    store = Store(tmp_path / "v", job, GENERATION, segment=6 * HOUR_MS)
    made = View(store, job)
    store.commit(entry(job, 1), rows(job, store, [Sold(shop, hour, 1) for shop in SHOPS for hour in range(HOURS)]))
    made.show(entry(job, 1))
    yield made
    made.close()


def test_pages_of_large_rows_are_short_and_whole_together(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all rows and of a key; a page has a row at least, so that reading goes on."""
    every, of_b = view.scan(None, 1_000).rows, view.read("b", None, None, 1_000).rows
    assert len(of_b) >= HOURS
    assert len(every) == len(SHOPS) * len(of_b)
    monkeypatch.setattr(views, "PAGE_BYTES", BYTES)
    scanned, after, pages = list(every[:0]), None, 0
    while pages == 0 or after is not None:
        page = view.scan(after, 1_000)
        assert sum(len(value) for _, value in page.rows[:-1]) < BYTES
        scanned, after, pages = scanned + page.rows, page.after, pages + 1
    assert (scanned, pages > 5) == (every, True)
    found, start = list(of_b[:0]), None
    while not found or start is not None:
        one = view.read("b", start, None, 1_000)
        assert sum(len(value) for _, value in one.rows[:-1]) < BYTES
        found, start = found + one.rows, one.next_from_ms
    assert found == of_b
    several = view.read_several(SHOPS, None, None, 1_000, 1_000)
    assert [(page.key, page.next_from_ms is not None) for page in several.pages] == [("a", True)]
    assert several.left == ["b", "c"]
    assert view.read_spans([("b", None, None)], 1_000, 1_000).pages[0].rows == of_b, (
        "as a set, which must be whole"
    )


def test_pieces_of_large_rows_are_short_and_whole_together(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under every read: as many rows are held at a time as are needed for its bytes."""
    every, sizes = view.scan(None, 1_000).rows, list[int]()
    read = PinnedRows.piece

    def piece(self: PinnedRows, start: bytes, stop: bytes, most: int) -> tuple[list[tuple[bytes, bytes]], bool]:
        found = read(self, start, stop, most)
        sizes.append(sum(len(value) for _, value in found[0][:-1]))
        return found

    monkeypatch.setattr(pinned_rows, "PIECE_BYTES", BYTES)
    monkeypatch.setattr(PinnedRows, "piece", piece)
    assert view.scan(None, 1_000).rows == every
    assert max(sizes) < BYTES
    assert len(sizes) > len(SHOPS) * HOURS // 10
