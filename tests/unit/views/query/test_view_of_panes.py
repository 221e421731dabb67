"""A view whose rows are panes: every kind of read answers with whole windows, and hides those that are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutwater.core.job.job import Job
from cutwater.core.job.windows import WindowSpec
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.selection import Selection
from cutwater.views.query.pages import Order, Part
from cutwater.views.query.presenter import Presenter
from cutwater.views.query.view import View
from cutwater.views.store import key_layout
from cutwater.views.store.key_layout import Window
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, HOUR_MS, Sold, encoded, make_job
from unit.views.store.test_store import entry

SIZE = 4
"""Windows of four hours, each two hours: the panes are two hours long."""
SHOPS = ("a", "b", "c")
Panes = dict[tuple[str, int], int]
"""Pieces by shop and hour, which is even."""
panes = st.dictionaries(
    st.tuples(st.sampled_from(SHOPS), st.integers(10, 40).map(lambda hour: hour * 2)), st.integers(1, 99)
)


class Filled:
    """A view of panes, and what it should show."""

    def __init__(self, job: Job, folder: Path, selection: Selection | None = None) -> None:
        self.plain = job
        self.job = replace(job, window=WindowSpec(SIZE * HOUR_MS, 2 * HOUR_MS), retention_ms=200 * HOUR_MS)
        self.store = Store(folder, self.job, GENERATION, segment=6 * HOUR_MS, selection=selection)
        self.view = View(self.store, self.job)
        self.sequence = 0

    def storage(self, shop: str, hour: int) -> bytes:
        return key_layout.storage_key(Window(shop, hour * HOUR_MS, (hour + 2) * HOUR_MS), self.store.segment_ms)

    def show(self, panes: Panes, horizon_hour: int = 0, lower_hour: int | None = None) -> Milestone:
        self.sequence += 1
        rows = {
            self.storage(shop, hour): encoded(self.plain, Sold(shop, hour, n))[1]
            for (shop, hour), n in panes.items()
        }
        shown = entry(self.job, self.sequence, horizon_hour * HOUR_MS)
        self.store.commit(shown, rows, lower_ms=None if lower_hour is None else lower_hour * HOUR_MS)
        self.view.show(shown)
        return shown.milestone

    def shown(self) -> dict[tuple[str, int], int]:
        return {(row["key"], row["window_start"] // HOUR_MS): row["pieces"] for row in self.view.rows()[1]}


def windows(panes: Panes, above_hour: int = 0) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for (shop, hour), amount in panes.items():
        for start in range(hour - SIZE + 2, hour + 1, 2):
            if start + SIZE > above_hour:
                found[shop, start] = found.get((shop, start), 0) + amount
    return found


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return make_job(tmp_path)[0]


@pytest.fixture
def filled(job: Job, tmp_path: Path) -> Iterator[Filled]:
    made = Filled(job, tmp_path / "view")
    yield made
    made.view.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(panes, st.integers(0, 90), st.integers(0, 90), st.integers(1, 5))
def test_every_read_shows_the_same_windows(
    filled: Filled, panes: Panes, from_hour: int, hours: int, limit: int
) -> None:
    """All rows, a key, several keys, pages of a scan, the top: as if the windows themselves were stored."""
    everything = {(shop, hour): 0 for shop in SHOPS for hour in range(20, 82, 2)} | panes
    filled.show(everything)
    whole = windows(everything)
    assert filled.shown() == whole
    first, end = from_hour * HOUR_MS, (from_hour + hours) * HOUR_MS
    inside = {at: n for at, n in whole.items() if first <= at[1] * HOUR_MS < end}
    found, start = {}, first
    while True:
        page = filled.view.read("b", start, end, limit)
        found |= {row["window_start"] // HOUR_MS: row["pieces"] for row in filled.view.present(page.rows)}
        if page.next_from_ms is None:
            break
        start = page.next_from_ms
    assert found == {at[1]: n for at, n in inside.items() if at[0] == "b"}
    scanned, after = {}, None
    while True:
        piece = filled.view.scan(after, limit, Part(first, end))
        scanned |= {
            (row["key"], row["window_start"] // HOUR_MS): row["pieces"] for row in filled.view.present(piece.rows)
        }
        after = piece.after
        if after is None:
            break
    assert scanned == inside
    top = filled.view.top(Order("pieces", True, limit), Part(first, end)).rows or []
    amounts = [filled.view.joined([row], Order("pieces", True, 1))[0]["pieces"] for row in top]
    assert amounts == sorted(inside.values(), reverse=True)[:limit]


def test_windows_that_have_lost_a_pane_are_not_shown(filled: Filled) -> None:
    """Because of the horizon, or of `max_bytes`; and the answers say from where on all are there."""
    everything = {("a", hour): hour for hour in range(20, 60, 2)}
    filled.show(everything)
    milestone = filled.show({}, horizon_hour=30)
    assert filled.view.horizon_ms(milestone) == filled.view.complete_above_ms(milestone) == 32 * HOUR_MS
    assert filled.shown() == windows(everything, above_hour=32)
    milestone = filled.show({}, horizon_hour=30, lower_hour=42)
    assert filled.view.lower_ms(milestone) == filled.view.complete_above_ms(milestone) == 44 * HOUR_MS
    assert filled.view.rows_lower_ms(milestone) == 42 * HOUR_MS
    assert filled.view.evicted(milestone, 40 * HOUR_MS) == 44 * HOUR_MS
    assert filled.view.evicted(milestone, 41 * HOUR_MS) is None
    assert filled.shown() == windows(everything, above_hour=44)
    assert filled.view.read("a", None, None, 1).rows[0][0].start_ms == 42 * HOUR_MS


def test_a_selection_by_time_shows_whole_windows(job: Job, tmp_path: Path) -> None:
    selection = Selection.of(since_ms=30 * HOUR_MS)
    filled = Filled(job, tmp_path / "part", selection)
    kept = {("a", hour): 1 for hour in range(28, 40, 2)}
    filled.show(kept)
    assert filled.shown() == windows(kept, above_hour=30)
    filled.view.close()


def test_the_stored_rows_are_the_panes(filled: Filled) -> None:
    """What snapshots and copies take."""
    everything = {("a", 20): 1, ("b", 26): 2}
    filled.show(everything)
    _, rows = filled.view.panes()
    assert [(window.key, window.start_ms // HOUR_MS, window.end_ms // HOUR_MS) for window, _ in rows] == [
        ("a", 20, 22),
        ("b", 26, 28),
    ]


def test_changes_are_the_windows_of_changed_panes(filled: Filled) -> None:
    """Merged with the panes that did not change; too many are none, so that readers start again."""
    filled.show({("a", 20): 1, ("a", 22): 2, ("b", 20): 7})
    filled.show({("a", 22): 5})
    changed = filled.view.changed_windows({filled.storage("a", 22): b""})
    assert changed is not None
    found = [(key_layout.parse(place), Presenter(filled.job).values(value)) for place, value in changed.items()]
    shown = {(window.key, window.start_ms // HOUR_MS): values["pieces"] for window, values in found}
    assert shown == {("a", 20): 6, ("a", 22): 5}
    assert filled.view.changed_windows({filled.storage("a", 22): b""}, bytes_max=300) is None
