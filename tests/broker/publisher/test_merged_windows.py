"""The output of sliding windows, whose state is kept as panes: each window once and whole, in both modes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cutwater.core.job.job import Job
from cutwater.core.job.windows import WindowSpec
from support.views.changelogs import HOUR_MS, Rows, Sold, Writing, make_job, until
from support.views.generation_player import Next
from support.views.output_rows import as_rows, folded, kinds, require_contiguous, require_no_repeat, sold, told
from support.views.publishing import (
    crash_at_write,
    create,
    in_mode,
    pieces,
    plain,
    publishing,
    read,
    wait_published,
)

SIZE = 3
"""Windows of three hours, each hour one: the panes are hours."""


def windows(panes: Rows, hours: Iterable[int] | None = None) -> Rows:
    """Every window of these panes; of some only, if the hours of the changed panes are given."""
    found: Rows = {}
    for (shop, start), amount in panes.items():
        for back in range(SIZE):
            at = (shop, start - back * HOUR_MS)
            found[at] = found.get(at, 0) + amount
    if hours is None:
        return found
    touched = {(hour - back) * HOUR_MS for hour in hours for back in range(SIZE)}
    return {at: amount for at, amount in found.items() if at[1] in touched}


def closed(panes: Rows, after_ms: int, up_to_ms: int) -> Rows:
    """The windows that end in (after, up to]."""
    return {at: amount for at, amount in windows(panes).items() if after_ms < at[1] + SIZE * HOUR_MS <= up_to_ms}


def sliding(job: Job) -> Job:
    return replace(job, window=WindowSpec(SIZE * HOUR_MS, HOUR_MS))


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(broker.cluster, sliding(make_job(tmp_path)[0]))
    create(broker.cluster, made.job)
    yield made
    made.close()


@pytest.mark.slow
def test_each_milestone_says_the_windows_that_it_changed(writing: Writing, tmp_path: Path) -> None:
    """Merged as of that milestone; a restart, also without its store, goes on where the output ends."""
    epochs = [sold(10, 5), sold(11, 50, shops=7), [], sold(12, 9, first=30), sold(10, 6, shops=1)]
    wanted: list[Rows] = []
    for number, rows in enumerate(epochs, 1):
        store = tmp_path / ("other" if number == 4 else "store")
        with publishing(writing.cluster, writing.job, store):
            writing.epoch(rows)
            found = read(writing.cluster, writing.job, number)
        shops = {one.shop for one in rows}
        whole = windows(writing.state, {one.hour for one in rows})
        wanted.append({at: amount for at, amount in whole.items() if at[0] in shops})
    assert [pieces(one) for one in found] == wanted
    assert len(plain(writing.cluster, writing.job)) == sum(map(len, wanted))
    assert folded(told(writing, writing.job), -(10**12)) == windows(writing.state)


@pytest.mark.parametrize("mode", ["updates", "final"])
def test_a_crash_between_two_parts_loses_no_window(
    writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The store is at the milestone already. Finals go on in the same order; updates begin their chunk again."""
    job = in_mode(writing.job, mode)
    writing.epoch(sold(10, 5, shops=10))
    with publishing(writing.cluster, job, tmp_path / "store", part_rows=50):
        wait_published(writing.cluster, job, 1)
    writes = crash_at_write(monkeypatch, 3)
    writing.epoch(sold(11, 5, shops=90), watermark_ms=16 * HOUR_MS)
    with pytest.raises(KeyboardInterrupt), publishing(writing.cluster, job, tmp_path / "store", part_rows=50):
        until(lambda: writes() == 3, "the crash")
    with publishing(writing.cluster, job, tmp_path / "store", part_rows=50):
        found = read(writing.cluster, job, 2)
    expected = windows(writing.state) if mode == "final" else windows(writing.state, [11])
    assert pieces(found[-1]) == expected
    rows = told(writing, job)
    assert folded(rows, -(10**12)) == windows(writing.state)
    if mode == "final":
        require_no_repeat(rows)
    assert writes() > 4


@pytest.mark.slow
def test_a_milestone_that_was_begun_goes_on_with_a_later_one(
    writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A jump leads to the newest milestone, also after a crash: what changed since is not taken for said."""
    writing.epoch(sold(10, 5, shops=30))
    with monkeypatch.context() as patch:
        writes = crash_at_write(patch, 2)
        with (
            pytest.raises(KeyboardInterrupt),
            publishing(writing.cluster, writing.job, tmp_path / "store", part_rows=20),
        ):
            until(lambda: writes() == 2, "the crash")
    writing.epoch([*sold(10, 50, shops=25), *(Sold(f"a-{number}", 11, number) for number in range(9))])
    with publishing(writing.cluster, writing.job, tmp_path / "store", part_rows=20):
        wait_published(writing.cluster, writing.job, 2)
    assert folded(told(writing, writing.job), -(10**12)) == windows(writing.state)


def test_the_first_finals_of_a_later_generation_are_whole(writing: Writing, tmp_path: Path) -> None:
    """Its state began with its parent's: windows that have lost a pane there are not said."""
    writing.job = job = replace(in_mode(writing.job, "final"), retention_ms=HOUR_MS)
    writing.epoch([one for hour in range(8, 15) for one in sold(hour, hour, shops=3)], watermark_ms=14 * HOUR_MS)
    after = Next(writing, start=1)
    after.promoted([], watermark_ms=14 * HOUR_MS)
    with publishing(writing.cluster, job, tmp_path / "store", generation=after.generation):
        wait_published(writing.cluster, job, 2)
        after.epoch([], watermark_ms=16 * HOUR_MS)
        found = read(writing.cluster, job, 3)
    assert [kinds(one).get("final", {}) for one in found] == [
        closed(after.seeds, 13 * HOUR_MS, 14 * HOUR_MS),
        closed(after.seeds, 14 * HOUR_MS, 16 * HOUR_MS),
    ]


def test_a_window_is_final_once_all_its_panes_are_closed(writing: Writing, tmp_path: Path) -> None:
    """Each once, with everything that came for it, whatever the state has dropped by then."""
    job = replace(in_mode(writing.job, "final"), retention_ms=HOUR_MS)
    writing.job = job
    panes: Rows = {}
    marks = [0, 11, 12, 13, 30]
    with publishing(writing.cluster, job, tmp_path / "store"):
        for number, (before, mark) in enumerate(pairwise(marks), 1):
            rows = sold(mark if mark < 30 else 14, number, shops=5)
            panes |= {(one.shop, one.hour * HOUR_MS): one.pieces for one in rows}
            writing.epoch(rows, watermark_ms=mark * HOUR_MS)
            found = read(writing.cluster, job, number)
            assert kinds(found[-1]).get("final", {}) == closed(panes, before * HOUR_MS, mark * HOUR_MS)
    require_no_repeat(told(writing, job))
    assert folded(told(writing, job), -(10**12)) == windows(panes)


def test_an_amended_pane_corrects_every_closed_window_that_holds_it(writing: Writing, tmp_path: Path) -> None:
    """And none that is open: that one becomes final later, with the amendment in it."""
    job = replace(in_mode(writing.job, "final"), amend_for_ms=100 * HOUR_MS)
    with publishing(writing.cluster, job, tmp_path / "store"):
        writing.epoch(sold(10, 5, shops=3), watermark_ms=12 * HOUR_MS)
        wait_published(writing.cluster, job, 1)
        writing.epoch(sold(10, 6, shops=2), watermark_ms=12 * HOUR_MS, amended=2)
        wait_published(writing.cluster, job, 2)
        writing.epoch([], watermark_ms=20 * HOUR_MS)
        found = read(writing.cluster, job, 3)
    before = windows({(f"shop-{one}", 10 * HOUR_MS): 5 + one for one in range(3)})
    assert kinds(found[0]) == {"final": {at: n for at, n in before.items() if at[1] <= 9 * HOUR_MS}}
    changed = {at: n for at, n in windows(writing.state).items() if before[at] != n and at[1] <= 9 * HOUR_MS}
    assert kinds(found[1]) == {"correction": changed}
    assert kinds(found[2]) == {"final": {at: n for at, n in windows(writing.state).items() if at[1] > 9 * HOUR_MS}}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["updates", "final"])
@pytest.mark.parametrize("retention", [1, 24])
def test_a_hand_over_says_the_windows_that_differ(
    writing: Writing, tmp_path: Path, mode: str, retention: int
) -> None:
    """Corrections of windows that were said, and the rollback's tombstones; also where the horizon is near."""
    writing.job = job = replace(in_mode(writing.job, mode), retention_ms=retention * HOUR_MS)
    first = sold(10, 5) + sold(11, 5) + sold(12, 3) + sold(13, 7)
    other = sold(11, 50, shops=3) + sold(12, 60, shops=3)
    last = sold(14, 2, shops=4)
    with publishing(writing.cluster, job, tmp_path / "store"):
        writing.epoch(first, watermark_ms=12 * HOUR_MS)
        wait_published(writing.cluster, job, 1)
        writing.epoch(sold(20, 1, shops=3) + sold(13, 8, shops=2), watermark_ms=14 * HOUR_MS)
        writing.epoch([], watermark_ms=14 * HOUR_MS)
        wait_published(writing.cluster, job, 3)
        after = Next(writing, start=1, rewinds=True)
        after.promoted(other, watermark_ms=13 * HOUR_MS)
        after.epoch(last, watermark_ms=18 * HOUR_MS)
        found = read(writing.cluster, job, 5)
    require_contiguous(found)
    assert [one.rewinds_to for one in found] == [0, 0, 0, 1, 0]
    rows = told(writing, job)
    if retention > 1:
        require_no_repeat(rows)  # else some panes of the old state are gone, and their windows are said again
    # Windows that end by then are not part of the second generation's state: what was said of them stays.
    gone_ms = 12 * HOUR_MS if retention == 1 else 0
    before_ms = 11 * HOUR_MS if retention == 1 and mode == "updates" else 0
    end_ms = (18 if mode == "final" else 99) * HOUR_MS
    panes = {(one.shop, one.hour * HOUR_MS): one.pieces for one in [*first, *other, *last]}
    wanted = closed(as_rows(first), before_ms, gone_ms) | closed(panes, gone_ms, end_ms)
    assert folded(rows, -(10**12)) == wanted
    assert "tombstone" in kinds(found[3])
    assert "correction" in kinds(found[3])


def test_one_window_of_many_shops(writing: Writing, tmp_path: Path) -> None:
    """A milestone published as one with earlier ones: each window with its last value, once."""
    for hour in (10, 11, 10):
        writing.epoch([Sold(f"shop-{number}", hour, number + hour) for number in range(20)])
    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        (found,) = read(writing.cluster, writing.job, 3)
    assert (found.first_sequence, found.token.sequence) == (1, 3)
    assert pieces(found) == windows(writing.state)
