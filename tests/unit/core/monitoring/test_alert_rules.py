"""Each judge of watch at its bounds: raised just above, not at it, and resolved by evidence alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alert_rules import (
    DRIFT_EPOCHS_MIN,
    DRIFT_EVENTS_MIN,
    JUDGES,
    LATE_MIN,
    SAMPLES_MIN,
    Limits,
    Verdict,
    late_warning,
)
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.monitoring.job_status import Bucket, JobStatus, Reader, Sample
from support.protocol_samples import GENERATION, JOB, barrier, milestone

NOW = 10_000_000
LIMITS = Limits(60_000, 180_000, 120_000, 300_000, 10, 1_000, 0.02, 3_600_000)
EMPTY = JobStatus(JOB, GENERATION)


def judged(kind: str, part: str, state: JobStatus, is_on: Alert | None = None, **limits: Any) -> Verdict | None:
    return JUDGES[kind, part](state, replace(LIMITS, **limits), NOW, is_on)


def on(verdict: Verdict | None) -> bool | None:
    return verdict.on if verdict else None


def raised(before_ms: int, value: int = 0) -> Alert:
    """An alert that is on since then."""
    return Alert(JOB, GENERATION, "kind", "part", "watch", NOW - before_ms, None, 1, value, "")


def state(**known: Any) -> JobStatus:
    return replace(EMPTY, **known)


def written(before_ms: int, epoch: int = 3, **more: Any) -> Any:
    return barrier(epoch, written_ms=NOW - before_ms, **more)


@pytest.mark.parametrize(
    ("known", "is_on", "said"),
    [
        ({"processed": written(120_000), "confirmed": 2}, None, None),
        ({"processed": written(120_001), "confirmed": 2}, None, True),
        ({"processed": written(120_001), "confirmed": 2, "spoke_ms": NOW - 120_000}, None, None),
        ({"processed": written(120_001), "confirmed": 3}, None, None),
        ({"processed": written(120_001), "confirmed": 3, "waiting": 0}, None, False),
        ({"processed": written(120_001), "confirmed": 4, "waiting": 0}, None, False),
        ({"processed": written(120_000), "confirmed": 2}, raised(120_001), False),
        ({"processed": written(120_000), "confirmed": 2}, raised(120_000), None),
        ({"waiting": 5, "spoke_ms": NOW - 120_000}, None, None),
        ({"waiting": 5, "spoke_ms": NOW - 120_001}, None, True),
        ({"waiting": 5, "spoke_ms": NOW - 120_001, "waiting_ms": NOW - 120_000}, None, None),
        ({"waiting": 0, "spoke_ms": NOW - 120_001}, None, False),
        ({"waiting": None, "spoke_ms": NOW - 120_001}, None, None),
        ({"waiting": 5}, None, None),
        ({"waiting": 5, "spoke_ms": 1, "processed": written(120_000), "confirmed": 3}, None, None),
        ({"waiting": 5, "spoke_ms": 1, "processed": written(120_001), "confirmed": 3}, None, True),
    ],
)
def test_a_stuck_epoch(known: dict[str, Any], is_on: Alert | None, said: bool | None) -> None:
    """One that Spark does not commit, or one that does not come although events wait."""
    assert on(judged(alerts.STUCK_EPOCH, alerts.DRIVER, state(**known), is_on)) is said


def test_a_stuck_epoch_is_named_with_its_age() -> None:
    found = judged(alerts.STUCK_EPOCH, alerts.DRIVER, state(processed=written(130_000), confirmed=2))
    assert found == Verdict(True, "epoch 3 was written 130 s ago, but Spark has not committed it", 130_000)
    found = judged(alerts.STUCK_EPOCH, alerts.DRIVER, state(waiting=5, spoke_ms=NOW - 140_000))
    assert found == Verdict(True, "epoch 0 is not written after 140 s, and 5 events wait", 140_000)


@pytest.mark.parametrize(("spoke_ms", "said"), [(0, None), (NOW - 180_000, False), (NOW - 180_001, True)])
def test_a_silent_driver(spoke_ms: int, said: bool | None) -> None:
    """One that never started is missed by nobody."""
    found = judged(alerts.SILENT, alerts.DRIVER, state(spoke_ms=spoke_ms))
    assert on(found) is said
    assert not said or (found is not None and found.value == 180_001)


@pytest.mark.parametrize(
    ("known", "is_on", "said"),
    [
        ({"confirmed": 3, "committed": milestone(3)}, None, False),
        ({"confirmed": 2, "committed": milestone(3)}, None, False),
        ({"confirmed": -1}, None, False),
        ({"confirmed": 0, "owed_ms": NOW - 60_000}, None, None),
        ({"confirmed": 0, "owed_ms": NOW - 60_001}, None, True),
        ({"confirmed": 4, "committed": milestone(3), "owed_ms": NOW - 60_001}, None, True),
        ({"confirmed": 4, "committed": milestone(3, committed_ms=NOW - 9), "owed_ms": NOW}, raised(10), False),
        ({"confirmed": 4, "committed": milestone(3, committed_ms=NOW - 10), "owed_ms": NOW}, raised(10), None),
        ({"confirmed": 4, "committed": milestone(3, committed_ms=NOW), "owed_ms": NOW}, None, None),
    ],
)
def test_a_silent_commit_signal(known: dict[str, Any], is_on: Alert | None, said: bool | None) -> None:
    """It owes milestones; while they come, it is slow at most."""
    assert on(judged(alerts.SILENT, alerts.SIGNAL, state(**known), is_on)) is said


@pytest.mark.parametrize("part", [alerts.PUBLISHER, alerts.VIEW])
@pytest.mark.parametrize(
    ("reader", "is_on", "said"),
    [
        (Reader(4, 1), None, False),
        (Reader(5, 1), None, False),
        (Reader(3, NOW - 60_000), None, None),
        (Reader(3, NOW - 60_001), None, True),
        (Reader(3, NOW - 60_001, NOW - 60_000), None, None),
        (Reader(3, NOW - 60_001, NOW - 60_002), None, True),
        (Reader(3, NOW - 9), raised(10), False),
        (Reader(3, NOW - 10), raised(10), None),
    ],
)
def test_a_silent_reader(part: str, reader: Reader, is_on: Alert | None, said: bool | None) -> None:
    """It is behind, and does not move."""
    known = state(committed=milestone(3, sequence=4), publisher=reader, view=reader)
    found = judged(alerts.SILENT, part, known, is_on)
    assert on(found) is said
    assert not said or (found is not None and "is 1 milestones behind and does not move" in found.text)


def test_of_readers_that_nobody_has_nothing_is_said() -> None:
    known = state(committed=milestone(3, sequence=4))
    assert judged(alerts.SILENT, alerts.VIEW, known) is None
    assert judged(alerts.SILENT, alerts.PUBLISHER, known, publishes=False) is None
    assert on(judged(alerts.SILENT, alerts.PUBLISHER, known)) is True


def growing(*levels: int) -> tuple[Sample, ...]:
    return tuple(Sample(at, level, level) for at, level in enumerate(levels))


@pytest.mark.parametrize(
    ("samples", "epochs", "is_on", "said"),
    [
        (growing(1, 1, 1, 2, 2, 2), DRIFT_EPOCHS_MIN, None, True),
        (growing(1, 1, 1, 2, 2, 2), DRIFT_EPOCHS_MIN - 1, None, False),
        (growing(1, 1, 1, 2, 2), 9, None, None),
        (growing(1, 1, 2, 2, 2, 2), 9, None, None),
        (growing(1, 2, 1, 2, 3, 3), 9, None, None),
        (growing(9, 1, 1, 1, 2, 2, 2), 9, None, None),
        (growing(1, 1, 1, 9, 2, 2, 2), 9, None, True),
        (growing(1, 1, 1, 2, 2, 2), 9, raised(1, value=18), False),
        (growing(1, 1, 1, 2, 2, 2), 9, raised(1, value=17), True),
    ],
)
def test_a_growing_drift_of_epochs(
    samples: tuple[Sample, ...], epochs: int, is_on: Alert | None, said: bool | None
) -> None:
    """Even the lowest of the newer half is above the highest of the older; half of what it was ends it."""
    assert len(growing(1, 1, 1, 2, 2, 2)) == SAMPLES_MIN
    known = state(samples=samples, processed=written(0, epochs + 3), committed=milestone(3))
    found = judged(alerts.GROWING_DRIFT, alerts.SIGNAL, known, is_on)
    assert on(found) is said
    assert not said or found == Verdict(
        True, f"{epochs} written epochs have no milestone, and the number grows", epochs
    )


@pytest.mark.parametrize(
    ("waiting", "events", "said"),
    [
        (None, 0, None),
        (DRIFT_EVENTS_MIN - 1, 0, False),
        (DRIFT_EVENTS_MIN, 0, True),
        (1_199, 400, False),
        (1_200, 400, True),
    ],
)
def test_a_growing_drift_of_events(waiting: int | None, events: int, said: bool | None) -> None:
    """Three epochs' worth, and a thousand at least; without a look at the source nothing is known."""
    known = state(samples=growing(1, 1, 1, 2, 2, 2), waiting=waiting, processed=written(0, events=events))
    assert on(judged(alerts.GROWING_DRIFT, alerts.DRIVER, known)) is said
    unknown = (*growing(1, 1, 1, 2, 2, 2), Sample(9, 1, None))
    assert on(judged(alerts.GROWING_DRIFT, alerts.DRIVER, replace(known, samples=unknown))) is said
    assert (
        on(judged(alerts.GROWING_DRIFT, alerts.DRIVER, state(samples=unknown, waiting=DRIFT_EVENTS_MIN))) is True
    )


def bucket(before_ms: int = 0, **sums: Any) -> Bucket:
    return Bucket(NOW - before_ms, **sums)


@pytest.mark.parametrize(
    ("buckets", "said"),
    [
        ((), False),
        ((bucket(rejected=9),), None),
        ((bucket(rejected=10),), True),
        ((bucket(rejected=4), bucket(359_999, rejected=6)), True),
        ((bucket(rejected=4), bucket(360_000, rejected=6)), None),
        ((bucket(360_000, rejected=99),), False),
    ],
)
def test_dead_letters_within_the_window(buckets: tuple[Bucket, ...], said: bool | None) -> None:
    """A slice counts while any part of it may lie in the window."""
    found = judged(alerts.DEAD_LETTERS, alerts.SOURCE, state(buckets=buckets))
    assert on(found) is said
    assert not said or (found is not None and found.value == 10)


@pytest.mark.parametrize(("skew_ms", "said"), [(3_600_000, False), (3_600_001, True)])
def test_skew_above_the_lateness(skew_ms: int, said: bool) -> None:
    known = state(buckets=(bucket(skew_ms=skew_ms), bucket(skew_ms=5), bucket(360_000, skew_ms=9_999_999)))
    found = judged(alerts.SKEW, alerts.SOURCE, known)
    assert on(found) is said
    assert not said or (found is not None and found.value == skew_ms)
    assert on(judged(alerts.SKEW, alerts.SOURCE, EMPTY)) is False


@pytest.mark.parametrize(
    ("late", "usable", "said"),
    [
        (0, 0, None),
        (4, 1, False),
        (LATE_MIN - 1, 10, None),
        (LATE_MIN, 10, True),
        (LATE_MIN, 500, True),
        (LATE_MIN, 501, None),
        (999, 10**6, None),
        (1_000, 10**6, True),
        (500, 10**6, False),
        (501, 10**6, None),
        (5, 500, False),
        (6, 500, None),
        (6, 600, False),
        (4, 10, False),
        (5, 10, None),
    ],
)
def test_late_events_by_number_and_share(late: int, usable: int, said: bool | None) -> None:
    """Raised at one in fifty of the events, or at a thousand; over at half of it, or where there are few."""
    known = state(buckets=(bucket(late=late, usable=usable), bucket(360_000, late=10**9, usable=1)))
    found = judged(alerts.LATE, alerts.SOURCE, known)
    assert on(found) is said
    assert not said or (found is not None and found.value == late)


def test_a_warning_of_late_events_counts_them() -> None:
    assert late_warning(9, 1, LIMITS) is None
    text = late_warning(30, 1_000, LIMITS)
    assert text is not None
    assert text.startswith("30 of 1,000 events arrived after their window was closed")


@pytest.mark.parametrize(
    ("foreign_ms", "is_on", "said"),
    [
        (0, None, False),
        (0, raised(299_999), None),
        (0, raised(300_000), False),
        (NOW - 299_999, None, True),
        (NOW - 300_000, None, False),
        (NOW - 299_999, raised(300_000), True),
    ],
)
def test_a_fenced_writer(foreign_ms: int, is_on: Alert | None, said: bool | None) -> None:
    """It is over once it was not seen for the window."""
    known = state(foreign_ms=foreign_ms, foreign_attempt=1, attempt=2)
    found = judged(alerts.FENCED_WRITER, alerts.BARRIERS, known, is_on)
    assert on(found) is said
    assert not said or found == Verdict(True, "attempt 1 writes although attempt 2 has started", 1)
