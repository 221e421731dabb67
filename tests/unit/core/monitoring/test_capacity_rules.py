"""Alerts about what lies ahead: raised at their bounds, resolved by evidence, and off if no bound is set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alert_rules import Limits, Verdict
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.monitoring.capacity_rules import CAPACITY, DAY_MS, HOUR_MS, duration_text, restore_ms
from cutwater.core.monitoring.disk_forecast import Disk, Forecast, FreeSpace
from cutwater.core.monitoring.job_status import JobStatus, NewestSnapshot
from cutwater.core.monitoring.job_status_fold import DISKS_MAX, observe_disk, observe_snapshot, take_stream
from cutwater.core.protocol import topics
from cutwater.core.sizing.machine import Machine
from support.protocol_samples import GENERATION, JOB, milestone

GB = 10**9
NOW = 100 * DAY_MS
EMPTY = JobStatus(JOB, GENERATION)
LIMITS = Limits(full_within_ms=3 * DAY_MS, recovery_ms=30_000)
FULL, BROKERS = (alerts.FILLING_DISK, alerts.DATA_FOLDER), (alerts.FILLING_DISK, alerts.BROKERS)
OLD = (alerts.OLD_SNAPSHOT, alerts.VIEW)
RAISED = Alert(JOB, GENERATION, "kind", "part", "watch", NOW, None, 1, 0, "")


def disk(full_in_ms: float | None, span_ms: int = DAY_MS, free: int = 500) -> Disk:
    return Disk(1_000 * GB, FreeSpace(NOW, free * GB), (), (Forecast(full_in_ms, span_ms),))


def judged(key: tuple[str, str], limits: Limits = LIMITS, **disks: Disk) -> Verdict | None:
    named = {name.replace("_", "-"): one for name, one in disks.items()}
    return CAPACITY[key](replace(EMPTY, disks=named), limits, NOW, None)


@pytest.mark.parametrize(
    ("full_in_ms", "span_ms", "free", "on"),
    [
        (3 * DAY_MS, DAY_MS, 500, True),
        (3 * DAY_MS + 1, DAY_MS, 500, None),
        (4.5 * DAY_MS, DAY_MS, 500, None),
        (4.5 * DAY_MS + 1, DAY_MS, 500, False),
        (None, DAY_MS, 500, False),
        (None, 0, 500, None),
        (None, 0, 29, True),
        (None, DAY_MS, 30, None),
        (None, DAY_MS, 45, False),
    ],
)
def test_a_disk_that_fills(full_in_ms: float | None, span_ms: int, free: int, on: bool | None) -> None:
    """Within the time of the setting, or nearly full now; over once it is half as long again."""
    found = judged(FULL, data_folder=disk(full_in_ms, span_ms, free))
    assert (found.on if found else None) is on


def test_the_alert_says_when_and_at_what_rate() -> None:
    found = judged(FULL, data_folder=disk(2.5 * DAY_MS))
    assert found == Verdict(
        True,
        "data-folder has 500.0 of 1,000.0 GB free: it is full in 2 days at the rate of the last 24 hours",
        216_000,
    )


def test_of_several_brokers_the_first_that_is_full_counts() -> None:
    """And only theirs: the data folder has an alert of its own."""
    disks = {"broker_1": disk(2 * DAY_MS), "broker_2": disk(DAY_MS), "data_folder": disk(HOUR_MS)}
    found = judged(BROKERS, **disks)
    assert found is not None
    assert found.text.startswith("broker-2 has")
    assert judged(BROKERS, data_folder=disk(HOUR_MS)) is None
    assert judged(BROKERS, broker_1=disk(None), broker_2=Disk(GB, FreeSpace(0, GB))) is None


def test_without_a_bound_nothing_is_said() -> None:
    assert judged(FULL, Limits(), data_folder=disk(1.0)) is None
    state = replace(EMPTY, snapshot=NewestSnapshot(0, 0, 0), committed=milestone(0))
    assert CAPACITY[OLD](state, Limits(), NOW, None) is None


def test_disks_are_bounded_and_folded() -> None:
    state = EMPTY
    for number in range(DISKS_MAX + 5):
        state = observe_disk(state, f"broker {number:04}", GB, 2 * GB, NOW)
    assert len(state.disks) == DISKS_MAX
    assert state.disks["broker 0000"].newest == FreeSpace(NOW, GB)


def told(sequences: int, rows: int, snapshot: NewestSnapshot | None, recovery_ms: int) -> Verdict | None:
    """Of a job with so many milestones, one a second up to now."""
    state, begin_ms = EMPTY, NOW - (sequences - 1) * 1_000
    for at in range(sequences):
        one = milestone(at, committed_ms=begin_ms + at * 1_000, rows=rows)
        state = take_stream(state, topics.milestones(JOB), at, replace(one, sequence=at + 1))
    state = observe_snapshot(state, snapshot)
    return CAPACITY[OLD](state, replace(LIMITS, recovery_ms=recovery_ms), NOW, RAISED)


def test_a_snapshot_that_is_too_old_for_the_target() -> None:
    """500,000 rows a second are read: 300 milestones of 50,000 rows after it take 30 s."""
    at = NewestSnapshot(300, NOW - 300_000, 0)
    found = told(600, 50_000, at, 25_000)
    assert found is not None
    assert found.on
    assert found.value == pytest.approx(31_000, rel=0.05)
    assert found.text.startswith("the newest snapshot is 5 minutes old, and about 15,")
    assert told(600, 50_000, at, 40_000) is None
    over = told(600, 50_000, at, 60_000)
    assert over is not None
    assert not over.on


def test_before_what_is_known_the_rate_is_taken() -> None:
    """The snapshot is an hour old, and twenty minutes are known at most."""
    known = told(600, 50_000, NewestSnapshot(0, NOW - 3_600_000, 0), 60_000)
    assert known is not None
    assert known.value == pytest.approx(1_000 + 3_600 * 50_000 / 500, rel=0.05)


def test_without_a_snapshot_nothing_is_said() -> None:
    assert told(10, 10**9, None, 1) is None


def test_an_unknown_snapshot_leaves_the_known_one() -> None:
    state = observe_snapshot(EMPTY, NewestSnapshot(5, NOW, 1))
    assert observe_snapshot(state, None) == state


def test_a_restore_is_its_start_the_snapshot_and_the_rows() -> None:
    machine = Machine(restore_bytes_per_s=GB, replay_rows_per_s=1_000)
    assert restore_ms(5_000, 2 * GB, machine) == 1_000 + 2_000 + 5_000


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (119_999, "120 s"),
        (120_000, "2 minutes"),
        (2 * DAY_MS - 1, "48 hours"),
        (9 * DAY_MS, "9 days"),
    ],
)
def test_a_duration_in_words(ms: float, text: str) -> None:
    assert duration_text(ms) == text


def test_a_disk_that_is_gone_keeps_no_alert_on() -> None:
    """As of a broker that was replaced. One that is not told for a while is still known."""
    state = EMPTY
    for minute in range(180):
        state = observe_disk(state, "broker 2", 900 * GB, 1_000 * GB, NOW + minute * 60_000)
        if minute < 30:
            state = observe_disk(state, "broker 1", GB, 1_000 * GB, NOW + minute * 60_000)
        found = CAPACITY[BROKERS](state, LIMITS, NOW, RAISED)
        if minute < 60:
            assert found is None or found.on
    assert found == Verdict(False, "each broker has space for longer")
    assert list(state.disks) == ["broker 2"]
