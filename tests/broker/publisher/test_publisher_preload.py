"""The states of a hand-over are loaded while there is a candidate: what its promotion finds is used and proved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from cutwater.core.errors import DivergenceError
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import Promotion, Withdrawal
from cutwater.publisher.handover.state_stores import StateStores
from support.protocol_samples import milestone
from support.views.candidate_player import Candidate
from support.views.changelogs import HOUR_MS, Writing, make_job, until
from support.views.output_rows import (
    as_rows,
    expected,
    folded,
    kinds,
    require_contiguous,
    require_no_repeat,
    sold,
    told,
)
from support.views.publishing import create, ends, in_mode, publishing, read, wait_published

DAY = 24 * HOUR_MS


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """However full the machine's disk is."""
    monkeypatch.setattr(StateStores, "roomy", lambda self: True)


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(broker.cluster, make_job(tmp_path, partitions=4)[0])
    create(broker.cluster, made.job)
    yield made
    made.close()


@contextmanager
def eager(writing: Writing, job: Job, folder: Path) -> Iterator[tuple[list[Any], list[BaseException]]]:
    """A publisher that loads ahead however little, its log, and the errors that ended it."""
    with capture_logs() as log, publishing(writing.cluster, job, folder, least_records=1, ahead=True) as errors:
        yield log, errors


@contextmanager
def begun(writing: Writing, job: Job, folder: Path) -> Iterator[list[Any]]:
    """The same, with a first milestone published."""
    with eager(writing, job, folder) as (log, _):
        writing.epoch(sold(1, 5))
        wait_published(writing.cluster, job, 1)
        yield log


def wait_loaded(log: list[Any], one: Writing, epoch: int) -> None:
    until(lambda: any(is_load(line, one, epoch) for line in log), lambda: f"{one.generation}, {epoch}, in {log}")


def is_load(line: Any, one: Writing, epoch: int | None = None) -> bool:
    wanted = {"event": "candidate preloaded", "generation": str(one.generation)}
    return wanted.items() <= line.items() and epoch in (None, line["epoch"])


@pytest.mark.slow
@pytest.mark.variations
@pytest.mark.parametrize("mode", ["updates", "final"])
def test_only_the_rest_is_read_at_a_promotion(writing: Writing, tmp_path: Path, mode: str) -> None:
    """What was loaded is gone from the candidate's changelog by then; the difference is whole all the same.

    The horizon passes windows meanwhile that are not published yet.
    """
    job = in_mode(writing.job, mode)
    with eager(writing, job, tmp_path / "store") as (log, _):
        writing.epoch(sold(1, 5) + sold(2, 7))
        wait_published(writing.cluster, job, 1)
        candidate = Candidate(writing, partitions=6)
        candidate.begin(sold(1, 6, shops=3))
        wait_loaded(log, candidate, 0)
        writing.epoch(sold(2, 8, shops=2))
        candidate.epoch(sold(3, 1), watermark_ms=5 * HOUR_MS, horizon_ms=4 * HOUR_MS)
        wait_loaded(log, candidate, 1)
        if mode != "final":
            wait_loaded(log, writing, 1)
        wait_published(writing.cluster, job, 2)
        candidate.forget()
        candidate.take_over()
        found = read(writing.cluster, job, 3)
    require_contiguous(found)
    assert not [line for line in log if line["event"] == "overtaken"]
    [compares] = [line["compares"] for line in log if line["event"] == "hand-over"]
    assert compares == "all" if mode == "final" else 45 <= compares < 120  # 45 differ, 120 there are
    if mode == "final":
        last = sold(1, 6, shops=3) + sold(1, 5)[3:] + sold(2, 7) + sold(3, 1)
        assert kinds(found[2]) == {"final": as_rows(last)}
    else:
        changed = sold(1, 6, shops=3) + sold(2, 7, shops=2) + sold(3, 1)
        assert kinds(found[2]) == {"update": as_rows(changed)}


@pytest.mark.slow
def test_what_is_loaded_is_proved_all_the_same(writing: Writing, tmp_path: Path) -> None:
    """A first milestone that says otherwise is not published."""
    with pytest.raises(DivergenceError, match="Rows were lost, changed or added"):
        hand_over_to_a_digest_of_something_else(writing, tmp_path / "store")
    assert max(end.sequence for end in ends(writing.cluster, writing.job)) == 1


def hand_over_to_a_digest_of_something_else(writing: Writing, folder: Path) -> None:
    job = writing.job
    with eager(writing, job, folder) as (log, errors):
        writing.epoch(sold(1, 5))
        wait_published(writing.cluster, job, 1)
        candidate = Candidate(writing)
        candidate.begin()
        wait_loaded(log, candidate, 0)
        candidate.take_over(digest=1)
        until(lambda: bool(errors), "the publisher to end")


@pytest.mark.slow
def test_a_candidate_that_comes_to_nothing_leaves_nothing(writing: Writing, tmp_path: Path) -> None:
    """And the next one is loaded, and handed over to."""
    job, folder = writing.job, tmp_path / "store"
    with begun(writing, job, folder) as log:
        candidate = Candidate(writing)
        candidate.begin()
        wait_loaded(log, candidate, 0)
        until(lambda: ahead_in(folder) == {str(candidate.generation), str(writing.generation)}, "two stores")
        candidate.tell(Withdrawal(job.name, candidate.generation, "a better one", 0))
        until(lambda: not folder_names(folder), "nothing to be left")
        writing.epoch(sold(1, 6, shops=2))  # another parent, so another id
        after = Candidate(writing)
        after.begin(sold(2, 1))
        wait_loaded(log, after, 0)
        after.take_over()
        found = read(writing.cluster, job, 3)
        until(lambda: not folder_names(folder), "nothing to be left of the hand-over")
    assert kinds(found[2]) == {"update": as_rows(sold(2, 1))}
    rows = told(writing, job)
    require_no_repeat(rows)
    assert folded(rows, 0) == expected(after, job)


@pytest.mark.slow
def test_a_promotion_of_another_one_is_handed_over_to(writing: Writing, tmp_path: Path) -> None:
    """The published state that was loaded for the first one is gone on with; of that nothing is left."""
    job, folder = writing.job, tmp_path / "store"
    with begun(writing, job, folder) as log:
        first = Candidate(writing)
        first.begin()
        wait_loaded(log, first, 0)
        wait_loaded(log, writing, 0)
        mark = folder / f"{writing.generation}.ahead" / "mark"
        mark.touch()
        second = Candidate(writing, number=3)
        second.begin(sold(2, 1))
        second.tell(Promotion(job.name, second.generation, 0))
        wait_loaded(log, second, 0)
        until(lambda: ahead_in(folder) == {f"{second.generation}", f"{writing.generation}"}, "the first to go")
        assert mark.exists()
        second.take_over()
        found = read(writing.cluster, job, 2)
    assert kinds(found[1]) == {"update": as_rows(sold(2, 1))}


@pytest.mark.slow
def test_a_rollback_to_what_was_before_the_horizon_reads_nothing_stale(writing: Writing, tmp_path: Path) -> None:
    """The published state is loaded with the windows that the rollback's has."""
    job, folder = writing.job, tmp_path / "store"
    with eager(writing, job, folder) as (log, _):
        whole = writing.epoch(sold(1, 5) + sold(2, 7))
        wait_published(writing.cluster, job, 1)
        writing.epoch(sold(1, 6, shops=3), watermark_ms=3 * HOUR_MS, horizon_ms=2 * HOUR_MS)
        wait_published(writing.cluster, job, 2)
        back = Candidate(writing, back_to=whole)
        back.begin()
        wait_loaded(log, back, 0)
        wait_loaded(log, writing, 1)
        back.take_over()
        found = read(writing.cluster, job, 3)
    assert found[2].rewinds_to == 1
    assert kinds(found[2]) == {"correction": as_rows(sold(1, 5, shops=3))}


@pytest.mark.slow
def test_killed_between_load_and_promotion_it_reads_all(writing: Writing, tmp_path: Path) -> None:
    """What a process has loaded that is gone is deleted, and loaded again."""
    job, folder = writing.job, tmp_path / "store"
    with begun(writing, job, folder) as log:
        candidate = Candidate(writing)
        candidate.begin(sold(2, 1))
        wait_loaded(log, candidate, 0)
    assert ahead_in(folder)
    candidate.take_over()
    with publishing(writing.cluster, job, folder, least_records=1):
        found = read(writing.cluster, job, 2)
        until(lambda: not folder_names(folder), "nothing to be left")
    assert kinds(found[1]) == {"update": as_rows(sold(2, 1))}


@pytest.mark.slow
def test_where_the_disk_has_little_room_nothing_is_loaded(
    writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was gives way; the hand-over reads all."""
    job, folder = writing.job, tmp_path / "store"
    with begun(writing, job, folder) as log:
        candidate = Candidate(writing)
        candidate.begin()
        wait_loaded(log, candidate, 0)
        monkeypatch.setattr(StateStores, "roomy", lambda self: False)
        candidate.epoch(sold(2, 1))
        until(lambda: any(line["event"] == "a candidate is not preloaded" for line in log), "it to be given up")
        until(lambda: not folder_names(folder), "what was loaded to go")
        candidate.take_over()
        found = read(writing.cluster, job, 2)
    assert kinds(found[1]) == {"update": as_rows(sold(2, 1))}


def folder_names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir() if one.is_dir()} if folder.is_dir() else set()


def ahead_in(folder: Path) -> set[str]:
    return {name.removesuffix(".ahead") for name in folder_names(folder) if name.endswith(".ahead")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("floor_ms", "later_ms", "taken"), [(5, 0, True), (6, 0, True), (4, 0, False), (5, DAY, False)]
)
def test_what_has_less_or_is_old_is_not_gone_on_with(
    writing: Writing, tmp_path: Path, floor_ms: int, later_ms: int, taken: bool
) -> None:
    """Older windows were not loaded; of a day ago a value may be that compaction has taken the next one of."""
    states, generation = StateStores(tmp_path, writing.job), writing.generation
    states.open_preload(milestone(1, generation=generation)).close()
    states.mark_preload_started(generation, 5, 500)  # and broken off
    states.mark_preload_started(generation, 3, 2_000)
    assert states.has_preload_gap(generation, 4)
    assert not states.has_preload_gap(generation, 5)
    assert states.is_preload_stale(generation, 1_000 + DAY)
    states.mark_preload_complete(generation, 2_000)
    assert states.is_preload_stale(generation, 2_000 + DAY)
    assert not states.is_preload_stale(generation, 3_000)
    states.adopt_preload(generation, floor_ms, 2_000 + later_ms)
    assert folder_names(tmp_path) == ({str(generation)} if taken else set())
    assert not states.is_preload_stale(generation, 2_000 + DAY)
