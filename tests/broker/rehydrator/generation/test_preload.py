"""A candidate's rows are loaded before it is promoted: nothing is shown of them, and nothing less is proved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.rehydrator.generation.test_switch import SHOPS, Reader, check, serving
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Withdrawal
from cutwater.views.store.folders import adopt_preload, preload_folder, remove_ahead, remove_earlier
from cutwater.views.store.table import RocksTable
from support.views.candidate_player import Candidate
from support.views.changelogs import Sold, Writing, encoded, make_job, until
from support.views.rehydrating import Process

EAGER = """
from cutwater.rehydrator.generation.preload import CandidatePreloader
from cutwater.views.bulk.loader import BulkLoader
CandidatePreloader.__init__.__defaults__ = (1, 0.05, None)
BulkLoader.is_worthwhile = lambda self, slices: True
"""
"""However few rows there are."""


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    one = Writing(broker.cluster, make_job(tmp_path)[0])
    one.epoch(Sold(shop, 1, 10) for shop in SHOPS)
    yield one
    one.close()


def says(served: Process, *words: str) -> bool:
    lines = served.log.read_text().splitlines()
    return any(all(word in line for word in words) for line in lines)


def views(writing: Writing, folder: Path) -> set[str]:
    """What lies there, by name."""
    found = (folder / "data" / "views" / writing.job.name).iterdir()
    return {one.name for one in found if one.is_dir()}


def loaded(served: Process, writing: Candidate, epoch: int) -> None:
    until(
        lambda: says(served, "candidate preloaded", f"epoch={epoch}", str(writing.generation)),
        f"epoch {epoch} to be loaded; log: {served.log}",
    )


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_only_the_rest_is_read_at_a_promotion(writing: Writing, tmp_path: Path, restarted: bool) -> None:
    """What was loaded is gone from the changelog by then; all is proved, and readers see every row."""
    with serving(writing, tmp_path, EAGER) as served:
        until(lambda: served.shown() == 1, "the first generation")
        candidate = Candidate(writing)
        candidate.begin([Sold("s1", 2, 7)])
        loaded(served, candidate, 0)
        candidate.epoch(Sold(shop, 1, 20) for shop in SHOPS[::2])
        loaded(served, candidate, 1)
        writing.epoch([Sold("s1", 1, 11)])
        until(lambda: served.shown() == 2, "the first generation goes on")
        assert views(writing, tmp_path) >= {f"{candidate.generation}.ahead"}
        assert str(candidate.generation) not in views(writing, tmp_path)
        candidate.forget()
        if not restarted:
            candidate.by_sequence |= writing.by_sequence
            with Reader(served) as reader:
                assert candidate.take_over().sequence == 3
                until(lambda: served.shown() == 3, "the candidate")
                candidate.epoch([Sold("s3", 3, 1)])
                until(lambda: served.shown() == 4, "what follows")
            check(reader, candidate)
            until(lambda: views(writing, tmp_path) == {str(candidate.generation)}, "all else to be deleted")
            return
        served.process.kill()
        served.process.wait()
    candidate.take_over()
    candidate.epoch([Sold("s3", 3, 1)])
    with serving(writing, tmp_path, EAGER) as served:
        until(lambda: served.shown() == 4, "the candidate, with what was loaded by a process that is gone")


@pytest.mark.slow
def test_what_is_loaded_is_proved_all_the_same(writing: Writing, tmp_path: Path) -> None:
    """A first milestone that says otherwise is not shown."""
    with serving(writing, tmp_path, EAGER) as served:
        until(lambda: served.shown() == 1, "the first generation")
        candidate = Candidate(writing)
        candidate.begin()
        loaded(served, candidate, 0)
        candidate.take_over(digest=1)
        until(lambda: served.get("/readyz").json()["status"] == "stopped", "it to stop")
        assert served.shown() == 1


@pytest.mark.slow
def test_a_candidate_that_comes_to_nothing_leaves_nothing(writing: Writing, tmp_path: Path) -> None:
    """Given up, or with rows of somebody else: then it is refused at its promotion, too."""
    with serving(writing, tmp_path, EAGER) as served:
        until(lambda: served.shown() == 1, "the first generation")
        candidate = Candidate(writing)
        candidate.begin()
        loaded(served, candidate, 0)
        candidate.tell(Withdrawal(writing.job.name, candidate.generation, "a better one", 0))
        until(lambda: views(writing, tmp_path) == {str(writing.generation)}, "it to be deleted")
        writing.epoch([Sold("s1", 1, 11)])  # another parent, so another id
        foreign = Candidate(writing)
        key, value = encoded(foreign.job, Sold("s1", 1, 1))
        foreign.record(foreign.partition("s1"), key, value, ("writer", b"g9-x/1/0"))
        foreign.begin()
        until(lambda: says(served, "not preloaded", "was written by g9-x/1/0"), "it to be refused")
        until(lambda: views(writing, tmp_path) == {str(writing.generation)}, "it to be deleted")
        foreign.take_over()
        until(lambda: served.get("/readyz").json()["status"] == "stopped", "it to stop")
        assert served.shown() == 2


@pytest.mark.slow
def test_it_can_be_turned_off(writing: Writing, tmp_path: Path) -> None:
    """Then all is read at the promotion."""
    with serving(writing, tmp_path, EAGER, CUTWATER_PRELOAD="false") as served:
        until(lambda: served.shown() == 1, "the first generation")
        candidate = Candidate(writing)
        candidate.begin()
        candidate.take_over()
        until(lambda: served.shown() == 2, "the candidate")
        assert not says(served, "candidate preloaded")


def test_a_folder_is_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    """Never in place of a view, never while it is open; what is left over is deleted, and nothing else."""
    folder = tmp_path / "g2-local-0badcafe"
    ahead, other = preload_folder(folder), preload_folder(tmp_path / "g3-local-0badcafe")
    for one in (ahead, other):
        RocksTable(one).close()
    opened = RocksTable(ahead)
    opened.write({b"a": b"1"})
    adopt_preload(folder)
    assert not folder.exists()
    opened.close()
    adopt_preload(folder)
    table = RocksTable(folder)
    assert table.get(b"a") == b"1"
    table.close()
    RocksTable(ahead).close()
    adopt_preload(folder)
    assert ahead.is_dir()
    third = Generation.parse("g3-local-0badcafe")
    assert remove_ahead(folder, third) == ["g2-local-0badcafe"]
    assert {one.name for one in tmp_path.iterdir() if one.is_dir()} == {folder.name, other.name}
    (tmp_path / f"{folder.name}.ahead.removing").mkdir()  # of a process that was killed in the middle of it
    (tmp_path / f"{folder.name}.ahead.loading").mkdir()
    assert remove_ahead(folder, third) == ["g2-local-0badcafe"]
    assert {one.name for one in tmp_path.iterdir() if one.is_dir()} == {folder.name, other.name}
    remove_earlier(tmp_path / "g4-local-0badcafe")
    assert not any(tmp_path.iterdir())
