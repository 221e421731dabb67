"""Scans of a part of the rows, and rankings of one: over a real store, what filtering and sorting gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.hashing import key_hash
from cutwater.views.query import view as viewing
from cutwater.views.query.pages import EVERYTHING, Order, Part
from cutwater.views.query.view import View
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, HOUR_MS, Sold, make_job
from unit.views.store.test_store import entry, rows

HOURS = 30
HORIZON_HOUR = 4
SHOPS = [f"s{number}" for number in range(40)]


class Filled(NamedTuple):
    view: View
    sold: list[Sold]
    """The live ones."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    folder = tmp_path_factory.mktemp("selecting")
    job, _ = make_job(folder)
    store = Store(folder / "v", job, GENERATION)
    # Few values, so that many are equal.
    every = [
        Sold(shop, hour, (n * 7 + hour) % 11) for n, shop in enumerate(SHOPS) for hour in range(n % 3, HOURS, 3)
    ]
    shown = entry(job, 1, HORIZON_HOUR * HOUR_MS)
    store.commit(shown, rows(job, store, every))
    view = View(store, job)
    view.show(shown)
    yield Filled(view, [sold for sold in every if sold.hour + 1 > HORIZON_HOUR])
    view.close()


def times() -> st.SearchStrategy[int | None]:
    hours = st.integers(-2, HOURS + 2).map(lambda hour: hour * HOUR_MS)
    return st.none() | hours | hours.map(lambda ms: ms + 1) | st.sampled_from([-(1 << 63) + 1, (1 << 63) - 1])


def shard_ranges() -> st.SearchStrategy[range | None]:
    return st.none() | st.builds(
        lambda first, length: range(first, min(1024, first + length)), st.integers(0, 1023), st.integers(1, 1024)
    )


prefixes = st.sampled_from(["", "", "s", "s1", SHOPS[-1], "t", "\x00"])
parts = st.builds(Part, times(), times(), shard_ranges(), prefixes)


def wanted(filled: Filled, part: Part) -> list[Sold]:
    """The rows of a part, said plainly."""
    return [
        sold
        for sold in filled.sold
        if sold.shop.startswith(part.prefix)
        and (part.from_ms is None or sold.hour * HOUR_MS >= part.from_ms)
        and (part.to_ms is None or sold.hour * HOUR_MS < part.to_ms)
        and (part.shards is None or key_hash(sold.shop) % 1024 in part.shards)
    ]


def as_sold(row: dict[str, Any]) -> Sold:
    return Sold(row["key"], row["window_start"] // HOUR_MS, row["pieces"])


@given(part=parts, limit=st.integers(1, 50), bound=st.integers(1, 200))
def test_pages_join_to_the_part(filled: Filled, part: Part, limit: int, bound: int) -> None:
    """However few rows a page may hold or look at: every row of the part once, and no other."""
    found: list[Sold] = []
    after: bytes | None = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(viewing, "SCAN_ROWS_MAX", bound)
        for _ in range(len(filled.sold) + HOURS * len(SHOPS)):
            page = filled.view.scan(after, limit, part)
            assert len(page.rows) <= limit
            found += map(as_sold, filled.view.present(page.rows))
            if (after := page.after) is None:
                break
    assert after is None
    assert sorted(found) == sorted(wanted(filled, part))


@given(part=parts, most=st.integers(1, 60), descending=st.booleans())
def test_top_is_the_head_of_a_sort(filled: Filled, part: Part, most: int, descending: bool) -> None:
    """Equal values stand by key and window, ascending in both orders."""
    order = Order("pieces", descending, most)
    rows_of_all = sorted(wanted(filled, part))  # by shop and hour
    rows_of_all.sort(key=lambda sold: sold.pieces, reverse=descending)
    stored = filled.view.top(order, part).rows
    assert stored is not None
    assert [as_sold(row) for row in filled.view.joined(stored, order)] == rows_of_all[:most]


def test_a_ranking_of_too_many_rows_is_none(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the first of those that it looked at: that would be a wrong answer that looks like a right one."""
    order = Order("pieces", True, 3)
    monkeypatch.setattr(viewing, "TOP_ROWS_MAX", len(filled.sold) - 1)
    assert filled.view.top(order, EVERYTHING).rows is None
    monkeypatch.setattr(viewing, "TOP_ROWS_MAX", HOURS * len(SHOPS))
    assert len(filled.view.top(order, EVERYTHING).rows or []) == 3


def test_several_keys_share_one_bound(filled: Filled) -> None:
    """Rows end where the bound is met: within a key there is a `next_from`, and the keys after it wait."""
    page = filled.view.read_several(SHOPS[:4], None, None, 6, 15)
    assert [len(one.rows) for one in page.pages] == [6, 6, 3]
    assert page.left == [SHOPS[3]]
    for one in page.pages:
        assert one.next_from_ms is not None
        again = filled.view.read(one.key, one.next_from_ms, None, 100).rows
        assert [as_sold(row) for row in filled.view.present([*one.rows, *again])] == [
            s for s in filled.sold if s.shop == one.key
        ]
