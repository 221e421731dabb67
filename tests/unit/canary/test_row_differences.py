"""The rows that differ between two states, kept from pair to pair: as if every pair compared every row."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.canary import row_differences
from cutwater.canary.row_differences import StateComparison, proved_equal
from cutwater.core.canary.milestone_pairs import Pair, Steps
from cutwater.core.canary.row_comparison import CanaryRows
from cutwater.core.job.job import Job
from cutwater.core.state.backlog import Entry
from cutwater.views.store import key_layout
from support.protocol_samples import GENERATION, OTHER, milestone
from support.views.changelogs import HOUR_MS, Sold, encoded, make_job

SHOPS, HOURS = ("a", "b", "c"), (1, 2, 3)
Rows = dict[tuple[str, int], int]
CHANGES = st.dictionaries(st.tuples(st.sampled_from(SHOPS), st.sampled_from(HOURS)), st.integers(1, 3), max_size=4)


@dataclass
class Held:
    """A state in memory; `told`: whether it knows which rows a move has changed."""

    job: Job
    told: bool = True
    rows: dict[bytes, bytes] = field(default_factory=dict)
    coming: Rows = field(default_factory=dict)
    has_milestone: bool = False

    def move(self, _steps: Steps) -> Set[bytes] | None:
        changed = {}
        for (shop, hour), pieces in self.coming.items():
            window = key_layout.Window(shop, hour * HOUR_MS, (hour + 1) * HOUR_MS)
            _, value = encoded(self.job, Sold(shop, hour, pieces))
            changed[key_layout.storage_key(window, HOUR_MS)] = value
        self.rows |= changed
        first, self.has_milestone = not self.has_milestone, True
        return None if first or not self.told else changed.keys()

    def value(self, name: bytes) -> bytes | None:
        return self.rows.get(name)

    def pieces(self, above_ms: int) -> Iterator[list[tuple[bytes, bytes]]]:
        rows = [one for one in sorted(self.rows.items()) if key_layout.end_of(one[0]) > above_ms]
        if rows:
            yield rows


@pytest.fixture(scope="module", name="job")
def _job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return make_job(Path(tmp_path_factory.mktemp("job")))[0]


def pair(epoch: int, horizon_hour: int = 0, late: tuple[int, int] = (0, 0), watermark_hour: int = 0) -> Pair:
    """With proofs that say nothing: rows are compared one by one."""
    changes: dict[str, Any] = {
        "horizon_ms": (horizon_hour + 1) * HOUR_MS if horizon_hour else 0,
        "watermark_ms": (watermark_hour + 1) * HOUR_MS if watermark_hour else 0,
    }
    sides = [
        Steps((Entry(milestone(epoch, generation=of, digest=number, **changes), b"", epoch),), late[number], True)
        for number, of in enumerate((GENERATION, OTHER))
    ]
    return Pair(*sides)


def differing(one: Rows, two: Rows, above_hour: int) -> set[tuple[str, int]]:
    return {at for at in one.keys() | two.keys() if at[1] > above_hour and one.get(at) != two.get(at)}


@given(st.lists(st.tuples(CHANGES, CHANGES, st.booleans(), st.sampled_from((0, 0, 1, 2))), max_size=8))
def test_each_pair_finds_what_a_whole_comparison_would(
    job: Job, moves: list[tuple[Rows, Rows, bool, int]]
) -> None:
    """Whatever only one of them changes, and whether changed rows are known or not; the horizon only rises."""
    live, theirs = Held(job), Held(job)
    comparison = StateComparison(live, theirs, CanaryRows(job, job, 0.0), 0)  # type: ignore[arg-type]
    held, others, above = Rows(), Rows(), 0
    for epoch, (ours, coming, told, horizon) in enumerate(moves):
        live.coming, theirs.coming, live.told = ours, coming, told
        held, others, above = held | ours, others | coming, max(above, horizon)
        found = comparison.compare(pair(epoch, above))
        wanted = differing(held, others, above)
        assert found.differing == len(wanted)
        assert {(one.key, one.start_ms // HOUR_MS) for one in found.first} == wanted


def test_closed_windows_count_apart_once_late_events_differ(job: Job) -> None:
    """From then on, also after a restart with that bound."""
    live, theirs = Held(job), Held(job)
    live.coming = {("a", 1): 1, ("a", 3): 1}
    theirs.coming = {("a", 1): 2, ("a", 3): 2}
    rows = CanaryRows(job, job, 0.0)
    comparison = StateComparison(live, theirs, rows, 0)  # type: ignore[arg-type]
    found = comparison.compare(pair(0, late=(1, 1), watermark_hour=2))
    assert (found.differing, found.late, found.late_until_ms) == (2, 0, 0)
    found = comparison.compare(pair(1, late=(1, 0), watermark_hour=2))
    assert (found.differing, found.late, found.late_until_ms) == (1, 1, 3 * HOUR_MS)
    assert [one.start_ms for one in found.first] == [3 * HOUR_MS]
    sides = Held(job, rows=live.rows), Held(job, rows=theirs.rows)
    again = StateComparison(*sides, rows, found.late_until_ms)  # type: ignore[arg-type]
    assert again.compare(pair(1)) == replace(found, rows=2)


def test_equal_proofs_are_equal_rows(job: Job) -> None:
    """Of one epoch each, and of one form; the rows of a difference before are equal now."""
    one, two = pair(1)
    equal = Pair(one, two._replace(entries=(replace_digest(two.last, one.milestone.digest),)))
    assert proved_equal(equal, same_form=True)
    assert not proved_equal(equal, same_form=False)
    assert not proved_equal(pair(1), same_form=True)
    twice = Pair(one._replace(entries=one.entries * 2), equal.candidate)
    assert not proved_equal(twice, same_form=True)


def replace_digest(entry: Entry, digest: int) -> Entry:
    return entry._replace(milestone=replace(entry.milestone, digest=digest))


def test_more_differences_than_are_kept_are_compared_whole_each_time(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_differences, "KEPT_MAX", 2)
    live, theirs = Held(job), Held(job)
    live.coming = {(shop, 1): 1 for shop in SHOPS}
    comparison = StateComparison(live, theirs, CanaryRows(job, job, 0.0), 0)  # type: ignore[arg-type]
    assert comparison.compare(pair(0)).differing == 2
    live.coming, theirs.coming = {}, {("a", 1): 1, ("b", 1): 1}
    assert comparison.compare(pair(1)).differing == 1
