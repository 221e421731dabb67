"""The time between two snapshots: beside fixed ones, within its bounds, with reasons."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.cadence.snapshot_cadence import EVERY_S_MAX, EVERY_S_MIN, SnapshotCadence
from support.cadence.snapshots import Rows, taken
from support.cadence.traces import between, steady

GRID_S = (30, 60, 90, 120, 180, 300, 450, 600, 900, 1_800, 3_600)
VIEWS = (
    Rows("steady", 30_000, steady(5_000)),
    Rows("a busy hour", 30_000, between(3_600, 7_200, 40_000, 5_000)),
    Rows("nearly idle", 60_000, steady(20)),
)
MILESTONES = st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 1e5), st.floats(-10, 1e5)), max_size=60)


@pytest.mark.parametrize("rows", VIEWS, ids=lambda rows: rows.name)
def test_snapshots_are_about_as_good_as_at_the_best_fixed_interval(rows: Rows) -> None:
    """The objective is met, and of the intervals that meet it the cheapest costs hardly less."""
    done, goal_s = taken(rows, None), rows.recovery_ms / 1_000
    fitting = [one for one in (taken(rows, every_s) for every_s in GRID_S) if one.recovery_s <= goal_s]
    assert fitting
    assert done.recovery_s <= goal_s
    assert done.cost_s <= 1.1 * min(one.cost_s for one in fitting)
    assert len(done.decisions) <= 20


def test_a_view_that_cannot_recover_in_time_says_so() -> None:
    """Its snapshots are as near as allowed."""
    cadence = SnapshotCadence(10_000, 600_000)
    cadence.uploaded(10 * 10**9)
    cadence.applied(5_000, 0.1, 1.0)
    decision = cadence.applied(5_000, 0.1, 2.0)
    assert decision is not None
    assert decision.sets == {"snapshot_every_ms": 30_000}
    assert "cannot recover within 10 s" in decision.reason


def test_the_reason_names_the_rates() -> None:
    """Rows in the time that is left of the objective, and rows that come."""
    cadence = SnapshotCadence(60_000, 600_000)
    found = [cadence.applied(200_000, 2.0, float(at_s)) for at_s in range(1, 200)]
    decisions = [one for one in found if one is not None]
    assert "a restore applies 4,900,000 rows in 49.0 s" in decisions[-1].reason
    assert decisions[0].before == {"snapshot_every_ms": 600_000}
    assert decisions[-1].inputs["rows_per_s"] > 100_000


@given(st.integers(5_000, 10**8), st.integers(1_000, 10**8), MILESTONES, st.integers(0, 10**15))
def test_no_milestone_makes_an_interval_beyond_the_bounds(
    recovery_ms: int, every_ms: int, milestones: list[tuple[int, float, float]], size: int
) -> None:
    """Whatever is observed, clocks that go back included; and equal milestones give equal decisions."""

    def played() -> list[int]:
        cadence, now, found = SnapshotCadence(recovery_ms, every_ms), 0.0, []
        cadence.uploaded(size)
        for rows, seconds, after in milestones:
            now += after
            if cadence.applied(rows, seconds, now) is not None:
                found.append(cadence.every_ms)
        return found

    found = played()
    assert all(EVERY_S_MIN * 1_000 <= one <= EVERY_S_MAX * 1_000 for one in found)
    assert found == played()
