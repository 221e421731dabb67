"""The states of a hand-over are loaded while there is a candidate: what its promotion finds is used and proved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from candidates_played import Candidate
from changelogs import HOUR_MS, Writing, make_job, until
from outputs_told import as_rows, expected, folded, kinds, require_contiguous, require_no_repeat, sold, told
from publishing import create, ends, finals, publishing, read, wait_published
from structlog.testing import capture_logs

from cutwater.core.errors import DivergenceError
from cutwater.core.job import Job
from cutwater.core.records import Withdrawal
from cutwater.publisher.states import States


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(broker.cluster, make_job(tmp_path, partitions=4)[0])
    create(broker.cluster, made.job)
    yield made
    made.close()


def modes(writing: Writing, mode: str) -> Job:
    return finals(writing.job) if mode == "final" else writing.job


def wait_loaded(log: list[Any], one: Writing, epoch: int) -> None:
    wanted = {"event": "loaded ahead", "generation": str(one.generation), "epoch": epoch}
    until(lambda: any(wanted.items() <= line.items() for line in log), f"{wanted}; log: {log}")


@pytest.mark.parametrize("mode", ["updates", "final"])
def test_only_the_rest_is_read_at_a_promotion(writing: Writing, tmp_path: Path, mode: str) -> None:
    """What was loaded is gone from the candidate's changelog by then; the difference is whole all the same.

    The horizon passes windows meanwhile that are not published yet.
    """
    job = modes(writing, mode)
    with capture_logs() as log, publishing(writing.cluster, job, tmp_path / "store", least_records=1, ahead=True):
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
    if mode == "final":
        last = sold(1, 6, shops=3) + sold(1, 5)[3:] + sold(2, 7) + sold(3, 1)
        assert kinds(found[2]) == {"final": as_rows(last)}
    else:
        changed = sold(1, 6, shops=3) + sold(2, 7, shops=2) + sold(3, 1)
        assert kinds(found[2]) == {"update": as_rows(changed)}


def test_what_is_loaded_is_proved_all_the_same(writing: Writing, tmp_path: Path) -> None:
    """A first milestone that says otherwise is not published."""
    with pytest.raises(DivergenceError, match="Rows were lost, changed or added"):
        hand_over_to_a_digest_of_something_else(writing, tmp_path / "store")
    assert max(end.sequence for end in ends(writing.cluster, writing.job)) == 1


def hand_over_to_a_digest_of_something_else(writing: Writing, folder: Path) -> None:
    job = writing.job
    with capture_logs() as log, publishing(writing.cluster, job, folder, least_records=1, ahead=True) as errors:
        writing.epoch(sold(1, 5))
        wait_published(writing.cluster, job, 1)
        candidate = Candidate(writing)
        candidate.begin()
        wait_loaded(log, candidate, 0)
        candidate.take_over(digest=1)
        until(lambda: bool(errors), "the publisher to end")


def test_a_candidate_that_comes_to_nothing_leaves_nothing(writing: Writing, tmp_path: Path) -> None:
    """And the next one is loaded, and handed over to."""
    job, folder = writing.job, tmp_path / "store"
    with capture_logs() as log, publishing(writing.cluster, job, folder, least_records=1, ahead=True):
        writing.epoch(sold(1, 5))
        wait_published(writing.cluster, job, 1)
        candidate = Candidate(writing)
        candidate.begin()
        wait_loaded(log, candidate, 0)
        until(lambda: folder_names(folder) == {str(candidate.generation), str(writing.generation)}, "two stores")
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


def folder_names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir() if one.is_dir()} if folder.is_dir() else set()


def test_what_was_loaded_with_less_is_not_gone_on_with(writing: Writing, tmp_path: Path) -> None:
    """A hand-over that compares older windows reads all: they were not loaded."""
    states, generation = States(tmp_path, writing.job), writing.generation
    assert not states.goes_on(generation, 5)
    states.ahead(generation, 5)
    assert states.goes_on(generation, 5)
    assert states.goes_on(generation, 6)
    states.ahead(generation, 7)
    assert not states.goes_on(generation, 6)
    states.ahead(generation, 3)
    assert not states.goes_on(generation, 6)
    states.forget(generation)
    assert not states.goes_on(generation, 9)
