"""The comparing process of a canary, on a broker: pairs, differences, decision, and its death at every stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.topics.audit_log import read_audit
from cutwater.core.access.audit_log import fold_actions
from cutwater.core.generations.holds import make_hold
from cutwater.operations.generations.claims import Claims
from support.canaries import Beside, Comparing, cut
from support.views.changelogs import HOUR_MS, Sold, Writing, make_job, now_ms, until

pytestmark = pytest.mark.slow
SHOPS = [f"s{number}" for number in range(20)]


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    return make_job(tmp_path)[1]


@pytest.fixture
def writing(broker: Any, job_file: Path) -> Iterator[Writing]:
    from cutwater.adapters.job_files.loader import load_job

    one = Writing(broker.cluster, load_job(job_file))
    one.epoch((Sold(shop, 1, 10) for shop in SHOPS), source_cut=cut(20))
    yield one
    one.close()


def audited(writing: Writing) -> list[tuple[str, str, str]]:
    records = fold_actions(read_audit(writing.cluster, writing.job.name, 1_000).readable)
    return [(one.action, one.via, one.outcome) for one in records]


def test_equal_milestones_promote_it(writing: Writing, job_file: Path, tmp_path: Path) -> None:
    """Each pair is compared, the first one whole; what has no partner is counted and not compared."""
    beside = Beside(writing, milestones=4)
    beside.begin()
    comparing = Comparing(beside, job_file, tmp_path / "canary")
    first = beside.compared(1)
    assert (first.rows, first.differing, first.epoch, first.sequence) == (20, 0, 0, 1)
    beside.both(30, [Sold("s1", 1, 11)])
    writing.epoch([Sold("s2", 1, 12)], source_cut=cut(35))
    beside.candidate.epoch([Sold("s2", 1, 12), Sold("s3", 2, 1)], source_cut=cut(36))
    writing.epoch([Sold("s3", 2, 1), Sold("s4", 2, 2)], source_cut=cut(37))
    beside.candidate.epoch([Sold("s4", 2, 2)], source_cut=cut(37))
    beside.both(40, [Sold("s1", 2, 5)])
    assert comparing.ended() == 0, comparing.log.read_text()
    found = beside.comparison
    assert found is not None
    assert (found.compared, found.unpaired, found.passed, found.differing) == (4, 1, 1, 0)
    assert found.rows == 20 + 1 + 3 + 1
    assert found.verdict == "promote"
    assert beside.known.promoting
    assert audited(writing) == [("canary promote", "canary", "done")]


def test_a_gate_waits_for_the_end_of_a_hold(writing: Writing, job_file: Path, tmp_path: Path) -> None:
    """Nobody else asks for the promotion then: the comparing process would be the only one to do so."""
    beside = Beside(writing, milestones=2)
    beside.begin()
    held = beside.candidate.generation
    beside.candidate.tell(make_hold(writing.job.name, held, 3_600_000, "watch", "dead letters rise", now_ms()))
    beside.both(30, [Sold("s1", 1, 11)])
    comparing = Comparing(beside, job_file, tmp_path / "canary")
    assert beside.compared(2).verdict == "promote"
    until(lambda: "decision waits" in comparing.log.read_text(), "the gate to wait")
    assert not beside.known.promoting
    Claims(writing.cluster, writing.job, "local", now_ms).release(held, "by hand", "looked at")
    assert comparing.ended() == 0, comparing.log.read_text()
    assert beside.known.promoting
    assert audited(writing) == [("canary promote", "canary", "done")]


def test_a_row_that_differs_drops_it_and_is_named(writing: Writing, job_file: Path, tmp_path: Path) -> None:
    beside = Beside(writing, milestones=10)
    beside.begin()
    comparing = Comparing(beside, job_file, tmp_path / "canary")
    beside.both(30, [Sold("s1", 1, 11)])
    beside.both(40, [Sold("s1", 1, 12), Sold("s2", 1, 13)], [Sold("s1", 1, 12)])
    assert comparing.ended() == 0, comparing.log.read_text()
    found = beside.comparison
    assert found is not None
    assert (found.compared, found.differing, found.verdict) == (3, 1, "drop")
    [row] = found.first
    assert (row.key, row.start_ms, row.end_ms) == ("s2", HOUR_MS, 2 * HOUR_MS)
    assert "pieces 13 → 10" in row.text
    assert "s2" in (beside.known.withdrawn or "")
    assert not beside.known.promoting
    assert audited(writing) == [("canary drop", "canary", "done")]


def test_a_wrong_seed_is_found_at_the_first_pair(writing: Writing, job_file: Path, tmp_path: Path) -> None:
    """A row that no later event touches, and one too many."""
    beside = Beside(writing, milestones=10, differences=1)
    beside.begin(wrong=[Sold("s7", 1, 9), Sold("s99", 1, 1)])
    comparing = Comparing(beside, job_file, tmp_path / "canary")
    assert comparing.ended() == 0, comparing.log.read_text()
    found = beside.comparison
    assert found is not None
    assert [(one.key, found.compared) for one in found.first] == [("s7", 1), ("s99", 1)]


def test_without_a_gate_it_compares_on_and_a_row_may_become_equal(
    writing: Writing, job_file: Path, tmp_path: Path
) -> None:
    beside = Beside(writing)
    beside.begin()
    comparing = Comparing(beside, job_file, tmp_path / "canary")
    beside.both(30, [Sold("s1", 1, 11), Sold("s2", 1, 11)], [Sold("s1", 1, 12), Sold("s3", 1, 11)])
    assert {one.key for one in beside.compared(2).first} == {"s1", "s2", "s3"}
    beside.both(40, [Sold("s1", 1, 20)])
    assert {one.key for one in beside.compared(3).first} == {"s2", "s3"}
    beside.candidate.epoch([Sold("s2", 1, 11)], source_cut=cut(50))
    writing.epoch([Sold("s3", 1, 11)], source_cut=cut(50))
    assert beside.compared(4).differing == 0
    comparing.process.terminate()
    assert comparing.ended() == 0


def test_closed_windows_of_late_events_that_only_one_has_listed_do_not_count(
    writing: Writing, job_file: Path, tmp_path: Path
) -> None:
    """They are counted by themselves. An open window's row is a difference, whatever is late."""
    beside = Beside(writing)
    beside.begin()
    comparing = Comparing(beside, job_file, tmp_path / "canary")
    late = {"late": 1, "watermark_ms": 2 * HOUR_MS}
    beside.both(30, [Sold("s1", 1, 11), Sold("s2", 2, 4)], [Sold("s2", 2, 5)], **late)
    found = beside.compared(2)
    assert (found.differing, found.late, found.late_until_ms) == (1, 1, 2 * HOUR_MS)
    assert [one.key for one in found.first] == ["s2"]
    comparing.kill()


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("point", ["canary-compared", "canary-compared@2", "canary-recorded", "canary-decided"])
def test_it_dies_anywhere_and_goes_on(
    writing: Writing, job_file: Path, tmp_path: Path, point: str, wrong: bool
) -> None:
    """Every pair counts once, and the decision is carried out."""
    beside = Beside(writing, milestones=4)
    beside.begin()
    for number in range(3):
        rows = [Sold(f"s{number}", 1, 20)]
        beside.both(30 + number, rows, [] if wrong and number == 2 else None)
    Comparing(beside, job_file, tmp_path / "canary", point).died()
    assert Comparing(beside, job_file, tmp_path / "canary").ended() == 0
    found = beside.comparison
    assert found is not None
    assert (found.compared, found.rows) == (4, 20 + 3)
    assert (found.verdict, found.differing) == (("drop", 1) if wrong else ("promote", 0))
    until(lambda: beside.known.promoting is not wrong, "the decision")
    assert (beside.known.withdrawn is not None) is wrong
    assert audited(writing)[-1][2] == "done"
