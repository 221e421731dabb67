"""`max_bytes` on a real broker and real RocksDB: closed windows leave with a milestone, and the view says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from cutwater.core.job.shards import ShardMap
from cutwater.core.state.bulk_load import Done
from cutwater.core.state.eviction import Eviction
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.follow.size_census import Census
from cutwater.views.follow.size_limit import SizeLimit
from cutwater.views.query.view import View
from cutwater.views.store import key_layout
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, HOUR_MS, Seen, Sold, Writing, following, make_job, now_ms
from unit.views.store.test_store import entry, rows

HOURS = 20
ROW_BYTES = 60
"""More than a row of these tests takes."""


class Watched:
    """What is told of evictions."""

    def __init__(self) -> None:
        self.found: list[Eviction] = []
        self.over_bytes = 0

    def evicted(self, found: Eviction) -> None:
        self.found.append(found)

    def record_excess(self, over_bytes: int) -> None:
        self.over_bytes = over_bytes


class Bound:
    """Makes the bounding of a view, with a census that the test takes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.watched = Watched()

    def __call__(self, store: Store, seen: Seen, options: dict[str, Any]) -> Seen:
        self.census = Census(store, ShardMap(), 3_600_000, now_ms, structlog.get_logger())
        log = structlog.get_logger()
        options["evict"] = SizeLimit(store, self._max_bytes, self.census, self.watched, log).lower_ms
        return seen

    def count(self) -> int:
        """Take a census; returns the bytes."""
        self.census.counted = self.census.count()
        return self.census.counted.sizes.total.bytes


def kept(store: Store) -> list[int]:
    """The hours that are in the store."""
    found = [
        key_layout.parse(key) for key, _ in store.pin().rows(key_layout.WINDOWS_START, key_layout.WINDOWS_END)
    ]
    return sorted({window.start_ms // HOUR_MS for window in found})


def test_a_lower_bound_is_in_the_batch_and_in_every_copy(tmp_path: Path) -> None:
    """It goes with the position: after a reopen and in a checkpoint; it never falls, and another view has none."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    store.commit(entry(job, 1), rows(job, store, [Sold("a", hour, 1) for hour in range(HOURS)]))
    assert (store.lower_ms, kept(store)) == (None, list(range(HOURS)))
    store.commit(entry(job, 2), {}, lower_ms=8 * HOUR_MS)
    assert (store.lower_ms, kept(store)) == (8 * HOUR_MS, list(range(8, HOURS)))
    store.commit(entry(job, 3), {}, lower_ms=4 * HOUR_MS)
    store.commit(entry(job, 4), {})
    store.checkpoint(tmp_path / "checkpoint")
    store.close()
    for folder in ("v", "checkpoint"):
        again = Store(tmp_path / folder, job, GENERATION)
        assert (again.lower_ms, again.floor_ms(0), again.floor_ms(9 * HOUR_MS)) == (
            8 * HOUR_MS,
            8 * HOUR_MS,
            9 * HOUR_MS,
        )
        again.close()
    other = Store(tmp_path / "v", job, GENERATION, partitions=frozenset({1}))
    assert (other.emptied, other.lower_ms) == (True, None)
    other.close()


def test_a_view_knows_the_bound_of_each_milestone_it_showed(tmp_path: Path) -> None:
    """An answer may be of the milestone before; and what the horizon has passed since is no loss any more."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    view = View(store, job)
    shown = [entry(job, 1), entry(job, 2), entry(job, 3), entry(job, 4, horizon_ms=8 * HOUR_MS)]
    for one, lower in zip(shown, (None, 4 * HOUR_MS, 8 * HOUR_MS, None), strict=True):
        store.commit(one, {}, lower_ms=lower)
        view.show(one)
    assert [view.lower_ms(one.milestone) for one in shown] == [None, 4 * HOUR_MS, 8 * HOUR_MS, None]
    second = shown[1].milestone
    assert view.evicted(second, None) == view.evicted(second, 3 * HOUR_MS) == 4 * HOUR_MS
    assert view.evicted(second, 3 * HOUR_MS + 1) is None
    view.close()


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Any:
    job, _ = make_job(tmp_path / "job")
    one = Writing(broker.cluster, job)
    one.epoch(Sold(f"s{shop}", hour, hour) for hour in range(HOURS) for shop in range(10))
    yield one
    one.close()


def above(writing: Writing, lower_ms: int | None, sequence: int) -> dict[tuple[str, int], int]:
    state = writing.by_sequence[sequence]
    return {at: one for at, one in state.items() if lower_ms is None or at[1] + HOUR_MS > lower_ms}


def test_the_oldest_closed_windows_leave_and_do_not_come_back(writing: Writing, tmp_path: Path) -> None:
    """At the milestone after a census, by whole segments; later rows below the bound prove and are not kept."""
    bound = Bound(max_bytes=100 * ROW_BYTES)
    folder = tmp_path / "view"
    with following(writing.cluster, writing.job, folder, keeping=bound) as view:
        view.wait_for(1)
        size = bound.count()
        assert 100 * ROW_BYTES < size < 200 * ROW_BYTES
        writing.epoch([Sold("s1", 19, 100)], watermark_ms=19 * HOUR_MS)
        view.wait_for(2)
        lower = view.view.lower_ms(view.view.milestone)
        assert lower is not None
        assert 0 < lower <= 19 * HOUR_MS
        assert lower % view.store.segment_ms == 0
        assert view.rows() == (2, above(writing, lower, 2))
        assert bound.count() <= 100 * ROW_BYTES
        late = [Sold("s1", 0, 7), Sold("s2", 19, 8)]
        writing.epoch(late)
        view.wait_for(3)
        assert view.seen.divergences == 0
        assert view.rows() == (3, above(writing, lower, 3))
        [found] = bound.watched.found
        assert (found.lower_ms, found.over_bytes) == (lower, 0)
        assert 0 not in kept(view.store)
    with following(writing.cluster, writing.job, folder) as view:
        assert view.view.lower_ms(view.first_shown) == lower, "known at once after a restart"
        assert view.rows() == (3, above(writing, lower, 3))


def test_an_eviction_is_told_when_the_store_holds_it(tmp_path: Path) -> None:
    """A milestone that is not applied evicts nothing, however often it is tried; one that is, once."""
    job, _ = make_job(tmp_path)
    store, bound, options = Store(tmp_path / "v", job, GENERATION), Bound(max_bytes=1), dict[str, Any]()
    bound(store, None, options)
    store.commit(entry(job, 1), rows(job, store, [Sold("s1", 1, 1)]))
    bound.count()
    second, third = (replace(one.milestone, watermark_ms=90 * HOUR_MS) for one in (entry(job, 2), entry(job, 3)))
    lowers = [options["evict"](second) for _ in range(3)]
    assert lowers[0] is not None
    assert (len(set(lowers)), bound.watched.found) == (1, [])
    store.commit(entry(job, 2), {}, lower_ms=lowers[0])
    assert kept(store) == bound.watched.found == []
    assert {options["evict"](third) for _ in range(3)} == {lowers[0]}
    assert [found.lower_ms for found in bound.watched.found] == [lowers[0]]
    store.close()


class Loading:
    """Nobody watches."""

    def loaded(self, done: Done, records_max: int) -> None:
        """Of the bulk restore."""


@pytest.mark.parametrize("in_bulk", [False, True])
def test_a_jump_keeps_to_the_bound_that_is_stored(writing: Writing, tmp_path: Path, in_bulk: bool) -> None:
    """Rows below the lower bound that come with many milestones at once are not the view's any more."""

    def bulk(store: Store, stopping: Callable[[], bool]) -> BulkLoader:
        cluster, job, topic = writing.cluster, writing.job, writing.topic
        return BulkLoader(cluster, job, topic, store, Loading(), 1, stopping, least_records=1)

    bound, later_ms = Bound(max_bytes=100 * ROW_BYTES), [0]
    options: dict[str, Any] = {"bulk": bulk} if in_bulk else {"chunk_rows": 3}
    clock = lambda: now_ms() + later_ms[0]  # noqa: E731
    with following(writing.cluster, writing.job, tmp_path / "view", clock, keeping=bound, **options) as view:
        view.wait_for(1)
        bound.count()
        writing.epoch([Sold(f"s{shop}", 19, 100) for shop in range(5)], watermark_ms=19 * HOUR_MS)
        view.wait_for(2)
        lower = view.store.lower_ms
        assert lower is not None
        later_ms[0] = 30 * HOUR_MS  # what comes now is too old for a step
        writing.epoch([Sold("s1", 0, 7), Sold("s1", 19, 9)])
        view.wait_for(3)
        assert view.store.lower_ms == lower
        assert view.rows() == (3, above(writing, lower, 3))
        assert min(kept(view.store)) * HOUR_MS >= lower


def test_open_windows_stay_whatever_they_take(writing: Writing, tmp_path: Path) -> None:
    """No closed window is left to evict: it is told, and following goes on."""
    bound = Bound(max_bytes=ROW_BYTES)
    with following(writing.cluster, writing.job, tmp_path / "view", keeping=bound) as view:
        view.wait_for(1)
        bound.count()
        writing.epoch([Sold("s1", 19, 100)], watermark_ms=9 * HOUR_MS)
        view.wait_for(2)
        assert view.store.lower_ms == 8 * HOUR_MS, "the last whole segment below the watermark"
        assert bound.watched.over_bytes > 0
        assert view.rows() == (2, above(writing, 8 * HOUR_MS, 2))


def test_writing_over_the_same_rows_evicts_nothing(writing: Writing, tmp_path: Path) -> None:
    """Bytes written since the census ask for another one, which finds the state as large as before."""
    bound = Bound(max_bytes=250 * ROW_BYTES)
    with following(writing.cluster, writing.job, tmp_path / "view", keeping=bound) as view:
        view.wait_for(1)
        before = bound.count()
        wanted: Callable[[], bool] = bound.census._wanted.is_set
        for sequence in range(2, 6):
            writing.epoch(
                [Sold(f"s{shop}", hour, 1_000 * sequence + hour) for hour in range(HOURS) for shop in range(10)],
                watermark_ms=19 * HOUR_MS,
            )
            view.wait_for(sequence)
        assert wanted()
        assert (view.store.lower_ms, bound.watched.found) == (None, [])
        assert abs(bound.count() - before) < 0.1 * before
