"""What a job keeps: times by its settings, bytes and prices by sums made by hand, and rules at their ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.checks.capacity import COMPACTION_LAG_S
from cutwater.core.checks.findings import Level
from cutwater.core.checks.policy import ANY, Bounds, ResourceRule
from cutwater.core.job.job import Attached, Output
from cutwater.core.sizing.costs import Prices
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.lifecycle import (
    RESOURCES,
    JobLoad,
    Keeping,
    Resource,
    bytes_text,
    check_lifecycle,
    resources_of,
)
from cutwater.core.sizing.skew import KeySkew

HOUR, DAY = 3_600_000, 86_400_000
JOB = load_job(Path(__file__).parents[4] / "deploy/jobs/flights.yaml")
KEEPING = Keeping(720, 168, True, 24, 7)
LOAD = JobLoad(Demand(1_000.0, KeySkew(500), copies=3), rejected=0.01)
PRICES = Prices("EUR", disk_gb_month=0.5, object_gb_month=0.25)


def kept(job: object = JOB, keeping: Keeping = KEEPING, load: JobLoad | None = LOAD) -> dict[str, Resource]:
    return {one.name: one for one in resources_of(job, keeping, load, PRICES)}  # type: ignore[arg-type]


def test_times_are_those_of_job_file_and_settings() -> None:
    found = kept(replace(JOB, lists_retention_ms=9 * DAY))
    assert {name: one.keep_ms for name, one in found.items()} == {
        "changelog": JOB.rows_retention_ms,
        "generations": 7 * DAY,
        "output": JOB.output.retention_ms,
        "lists": 9 * DAY,
        "streams": 30 * DAY,
        "snapshots": 7 * DAY,
        "total": max(JOB.rows_retention_ms, JOB.output.retention_ms, 30 * DAY),
    }
    assert kept()["lists"].keep_ms is None, "for ever"
    assert kept()["total"].keep_ms is None


def test_lists_by_hand() -> None:
    """A hundredth of a thousand events, each of 200 B and 250 B about it, three copies."""
    a_day = 1_000 * 0.01 * 86_400 * (200 + 250) * 3
    assert kept(replace(JOB, lists_retention_ms=2 * DAY))["lists"].bytes == pytest.approx(2 * a_day)
    assert kept()["lists"].bytes == pytest.approx(365 * a_day), "after a year, if nothing removes them"
    assert kept()["lists"].cost == pytest.approx(365 * a_day / 1e9 * 0.5)


def test_streams_grow_with_their_time_and_each_epoch() -> None:
    one, two = (kept(keeping=replace(KEEPING, streams_hours=hours))["streams"] for hours in (24, 72))
    assert two.bytes == pytest.approx(3 * (one.bytes or 0))
    slower = JobLoad(replace(LOAD.demand, epoch_s=1.0))
    assert kept(load=slower)["streams"].bytes == pytest.approx((kept()["streams"].bytes or 0) / 2)


def test_no_snapshots_are_no_bytes() -> None:
    none = kept(keeping=replace(KEEPING, takes_snapshots=False))["snapshots"]
    assert (none.keep_ms, none.bytes, none.cost) == (0, 0, 0)
    some = kept()["snapshots"]
    assert some.bytes
    assert some.cost == pytest.approx(some.bytes / 1e9 * 0.25), "at the price of the object store, in one copy"


def test_a_changelog_has_a_day_of_all_rows_in_each_copy() -> None:
    changelog = kept()["changelog"].bytes or 0
    assert changelog > 3 * COMPACTION_LAG_S
    assert kept(load=JobLoad(replace(LOAD.demand, copies=1)))["changelog"].bytes == pytest.approx(changelog / 3)


def test_what_a_job_does_not_have_is_not_there() -> None:
    assert "output" not in kept(replace(JOB, output=Output(mode="none")))
    assert "lists" not in kept(replace(JOB, attached=Attached("key", "window")))


def test_without_a_load_no_bytes_are_told() -> None:
    found = kept(load=None)
    assert all(one.bytes is None and one.cost is None for one in found.values())
    assert set(found) == {*RESOURCES, "total"}


BOUNDS = st.builds(Bounds, st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))


@given(BOUNDS, BOUNDS, BOUNDS, st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))
def test_a_rule_is_broken_by_what_is_outside(
    keep: Bounds, size: Bounds, cost: Bounds, keep_ms: int | None, amount: int | None
) -> None:
    """What is not known holds no rule; what is kept for ever has no upper bound."""
    rule = ResourceRule(keep, size, Bounds(None, cost.at_most))
    ((_, found),) = check_lifecycle({"x": rule}, [Resource("x", keep_ms, "y", amount, amount)], "EUR")
    keeps = keep.at_most is None if keep_ms is None else _within(keep, keep_ms)
    sizes = _within(size, amount) if amount is not None else size == ANY
    costs = rule.cost == ANY or (amount is not None and amount <= (cost.at_most or 0))
    assert (found.level is Level.OK) == (keeps and sizes and costs)
    assert bool(found.remedy) == (found.level is Level.ERROR)


def _within(bounds: Bounds, value: float) -> bool:
    low = value if bounds.at_least is None else bounds.at_least
    high = value if bounds.at_most is None else bounds.at_most
    return low <= value <= high


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (12_345, "12.3 KB"), (5e9, "5 GB"), (3.2e12, "3.2 TB")]
)
def test_sizes_are_read_by_people(count: float, text: str) -> None:
    assert bytes_text(count) == text
