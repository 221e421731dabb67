"""What is unusual for a job: found when it comes, resolved when it goes, and never said of chance alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alert_changes import decide_changes
from cutwater.core.monitoring.alert_rules import Limits
from cutwater.core.monitoring.alerts import Key
from cutwater.core.monitoring.anomaly_rules import ANOMALIES
from cutwater.core.monitoring.history import RECENT, SLOTS_MAX, USUAL_MIN, compare_recent
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.monitoring.job_status_fold import take_alert, take_stream
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from support.protocol_samples import GENERATION, JOB, milestone

STREAM, ALERTS = topics.milestones(JOB), topics.alerts(JOB)
LIMITS = Limits(window_ms=300_000)
SLOT_S = 5
SLOW: Key = (alerts.SLOWER, alerts.DRIVER)
SLOW_COMMIT: Key = (alerts.SLOWER, alerts.SIGNAL)
HOT: Key = (alerts.HOT_PARTITION, alerts.CHANGELOG)
STUCK: Key = (alerts.STUCK_WATERMARK, alerts.SOURCE)
IDLE: Key = (alerts.IDLE_PARTITION, alerts.SOURCE)


class Played:
    """A job whose milestones come at intervals, and a watch that looks at each."""

    def __init__(self, seed: int = 1) -> None:
        self.chance = random.Random(seed)
        self.state = JobStatus(JOB, GENERATION)
        self.now_ms, self.epoch = 1_000_000_000, 0
        self.cut = [0, 0, 0, 0]
        self.on: dict[Key, str] = {}
        self.raised: list[Key] = []

    def run(
        self,
        seconds: float,
        process_ms: float = 400,
        commit_ms: float = 60,
        rows: Sequence[float] = (1, 1, 1, 1),
        shares: Sequence[float] = (1, 1, 1, 1),
        watermark: bool = True,
        each_s: float = 1.0,
    ) -> None:
        """`rows`, `shares`: of the changelog's partitions, and of the source's. Times vary by a fifth."""
        end_ms = self.now_ms + seconds * 1_000
        while self.now_ms < end_ms:
            self.now_ms += int(each_s * 1_000)
            for at, share in enumerate(shares):
                self.cut[at] += round(share * self.chance.uniform(40, 60))
            process, commit = (round(one * self.chance.uniform(0.8, 1.2)) for one in (process_ms, commit_ms))
            self._take(process, commit, [round(one * self.chance.uniform(80, 120)) for one in rows], watermark)

    def _take(self, process_ms: int, commit_ms: int, rows: list[int], watermark: bool) -> None:
        self.epoch += 1
        before = self.state.committed
        one = milestone(
            self.epoch,
            committed_ms=self.now_ms,
            written_ms=self.now_ms - commit_ms,
            epoch_started_ms=self.now_ms - commit_ms - process_ms,
            source_cut=Cut.of_topic("events", self.cut),
            watermark_ms=self.now_ms if watermark or before is None else before.watermark_ms,
            events=100,
            rejected=0,
            late=0,
            skew_ms=0,
        )
        one = replace(one, partition_rows=tuple(rows))
        self.state = take_stream(self.state, STREAM, self.epoch, one)
        self.look()

    def look(self) -> None:
        """What watch does at each tick, with its other rules left out."""
        for told in decide_changes(self.state, LIMITS, self.now_ms):
            if told.key in ANOMALIES:
                self.state = take_alert(self.state, ALERTS, None, told)
                if told.on:
                    self.on[told.key] = told.text
                    self.raised.append(told.key)
                else:
                    self.on.pop(told.key, None)


@pytest.mark.parametrize("seed", range(3))
def test_chance_raises_nothing(seed: int) -> None:
    """Half an hour of times that vary, rows that vary, and a pause of ten minutes."""
    job = Played(seed)
    job.run(900)
    job.now_ms += 600_000
    job.run(900)
    assert job.raised == []


@pytest.mark.parametrize(
    ("key", "unusual"),
    [
        (SLOW, {"process_ms": 2_000}),
        (SLOW_COMMIT, {"commit_ms": 400}),
        (HOT, {"rows": (9, 1, 1, 1)}),
        (STUCK, {"watermark": False}),
        (IDLE, {"shares": (1, 0, 1, 1)}),
    ],
)
def test_what_is_unusual_is_raised_and_resolved(key: Key, unusual: dict[str, Any]) -> None:
    """It alone, and once; a look at the same state says nothing new."""
    job = Played()
    job.run(700)
    job.run(400, **unusual)
    assert job.raised == [key], job.on
    job.look()
    assert job.raised == [key]
    job.run(200)
    assert job.on == {}


def test_a_slow_step_is_raised_after_some_slots_and_not_for_one_strange_epoch() -> None:
    job = Played()
    job.run(600)
    job.run(1, process_ms=60_000)
    job.run(60)
    assert job.raised == []
    job.run((RECENT + 1) * SLOT_S, process_ms=1_600)
    assert job.raised == [SLOW]
    assert "ms are usual" in job.on[SLOW]


def test_what_lasts_becomes_the_usual() -> None:
    """An alert about a lasting change ends by itself: it has been told once."""
    job = Played()
    job.run(300)
    job.run(SLOTS_MAX * SLOT_S, process_ms=2_000)
    assert job.raised == [SLOW]
    assert job.on == {}


def test_an_idle_partition_is_named() -> None:
    job = Played()
    job.run(700)
    job.run(370, shares=(1, 1, 0, 1))
    assert job.on[IDLE].startswith("no record for 300 s in events/2")


def test_a_source_at_rest_has_no_idle_partition() -> None:
    """Nor one with few records: by chance it may have none."""
    job = Played()
    job.run(700, shares=(1, 1, 1, 0.001))
    job.run(400, shares=(0, 0, 0, 0))
    assert IDLE not in job.raised
    job.run(400, shares=(1, 1, 1, 0))
    assert IDLE not in job.raised


def test_without_a_history_nothing_is_unusual() -> None:
    job = Played()
    job.run((USUAL_MIN - RECENT - 2) * SLOT_S)
    job.run(20, process_ms=9_000)
    assert SLOW not in job.raised


def test_a_watch_that_starts_again_knows_the_usual_from_the_log() -> None:
    """The state is folded from milestones alone, so another process that reads them has the same history."""
    job, other = Played(3), Played(3)
    job.run(600)
    other.run(600)
    assert job.state.history == other.state.history
    assert len(job.state.history.slots) == 600 // SLOT_S + 1
    assert all(one.rows == () for one in job.state.history.slots[:-1]), "only the newest slot has its rows"


def test_a_clock_set_back_loses_nothing() -> None:
    job = Played()
    job.run(300)
    job.now_ms -= 120_000
    job.run(300)
    assert job.raised == []
    begins = [one.begin_ms for one in job.state.history.slots]
    assert begins == sorted(set(begins))


@settings(max_examples=100)
@given(st.lists(st.floats(0, 1e6), min_size=USUAL_MIN + RECENT, max_size=100), st.floats(1, 3))
def test_high_and_usual_exclude_each_other(values: list[float], factor: float) -> None:
    found = compare_recent(values, factor)
    assert found is not None
    assert not (found.is_high and found.is_usual)
    assert found.now == min(values[-RECENT:])
    same = compare_recent([values[0]] * len(values), factor)
    assert same is not None
    assert (same.is_high, same.is_usual) == (False, True), "what never changes is usual"


def test_more_partitions_than_before_are_taken() -> None:
    job = Played()
    job.run(200)
    job.run(200, rows=(1,) * 8)
    assert HOT not in job.raised
    assert len(job.state.history.slots[-1].rows) == 8


def test_history_is_bounded() -> None:
    job = Played()
    job.run(SLOTS_MAX * SLOT_S * 1.5)
    assert len(job.state.history.slots) == SLOTS_MAX
    assert len(job.state.history.cuts) <= 12
    assert job.state.history.unmoved == 0


def test_a_watermark_that_rose_between_two_looks_is_resolved() -> None:
    """The newest milestone at a look is another one, which did not raise it; then the source is quiet."""
    job = Played()
    job.run(60)
    job.run(400, watermark=False)
    assert STUCK in job.on
    look, job.look = job.look, lambda: None  # type: ignore[method-assign]
    job.run(1)
    job.run(2, watermark=False)
    look()
    assert STUCK not in job.on


def test_a_watch_that_starts_again_does_not_take_the_first_milestone_for_a_rise() -> None:
    job = Played()
    job.run(60)
    job.run(400, watermark=False)
    known = job.state.alerts
    job.state = replace(JobStatus(JOB, GENERATION), alerts=known)
    job.run(60, watermark=False)
    assert STUCK in job.on


@pytest.mark.parametrize("now", [1, 40])
def test_a_step_that_took_no_time_has_no_usual(now: int) -> None:
    """As by the clocks of two machines, of which one is ahead: whatever comes then is endlessly more."""
    job = Played()
    job.run(300, commit_ms=0)
    job.run(60, commit_ms=now)
    assert SLOW_COMMIT not in job.raised
