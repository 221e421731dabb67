"""What watch makes of single records and moments, at the bounds of what it keeps."""

from __future__ import annotations

from cutwater.core.monitoring.alerts import DIVERGENCE, PUBLISHER, Alert
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.monitoring.job_status_fold import (
    observe_end,
    observe_nothing,
    take_alert,
    take_signal,
    take_stream,
)
from cutwater.core.protocol.cuts import Cut
from support.protocol_samples import GENERATION, JOB, committed, milestone

EMPTY = JobStatus(JOB, GENERATION)
SAMPLE_MS = 100


def test_a_milestone_is_owed_from_the_moment_that_its_epoch_is_committed() -> None:
    """Not from an earlier one, and a later epoch that lacks its milestone too does not start the time again."""
    state = take_stream(EMPTY, "m", 0, milestone(0))
    state = take_signal(state, "b", 0, committed(1, at_ms=5_000))
    assert (state.confirmed, state.owed_ms) == (1, 5_000)
    state = take_signal(state, "b", 1, committed(2, at_ms=6_000))
    assert (state.confirmed, state.owed_ms) == (2, 5_000)
    state = take_stream(state, "m", 1, milestone(2, milestone(1, milestone(0))))
    assert state.owed_ms == 0


def test_an_epoch_whose_milestone_was_read_first_owes_nothing() -> None:
    state = take_stream(EMPTY, "m", 0, milestone(3))
    assert take_signal(state, "b", 0, committed(3, at_ms=5_000)).owed_ms == 0


def waiting(state: JobStatus, events: int, now_ms: int) -> JobStatus:
    return observe_end(state, Cut.of_topic("flights.events", [events]), now_ms, SAMPLE_MS)


def test_events_wait_from_the_first_look_that_saw_them() -> None:
    """While nothing waits there is no such time, whether that was seen before or not."""
    state = waiting(EMPTY, 0, 1_000)
    assert (state.waiting, state.waiting_ms) == (0, 1_000)
    state = waiting(state, 5, 2_000)
    assert (state.waiting, state.waiting_ms) == (5, 2_000)
    state = waiting(state, 9, 3_000)
    assert (state.waiting, state.waiting_ms) == (9, 2_000)
    state = waiting(waiting(state, 0, 4_000), 1, 5_000)
    assert (state.waiting, state.waiting_ms) == (1, 5_000)
    state = waiting(observe_nothing(state, 6_000, SAMPLE_MS), 1, 7_000)
    assert (state.waiting, state.waiting_ms) == (1, 7_000), "nobody has looked in between"


def test_a_sample_is_kept_each_time_that_its_interval_has_passed() -> None:
    """At the interval itself, and not a moment before; a clock that was set back starts anew."""
    state = EMPTY
    for now_ms in (1_000, 1_099, 1_100, 1_150, 1_199, 1_200):
        state = observe_nothing(state, now_ms, SAMPLE_MS)
    assert [one.at_ms for one in state.samples] == [1_000, 1_100, 1_200]
    assert [one.at_ms for one in observe_nothing(state, 1_199, SAMPLE_MS).samples] == [1_199]


def test_an_alert_that_this_watch_wrote_is_known_before_it_is_read() -> None:
    """It is read from the topic once more, at its offset, and changes nothing then."""
    alert = Alert(JOB, GENERATION, DIVERGENCE, PUBLISHER, "watch", 7, None, 1, 0, "rows")
    wrote = take_alert(EMPTY, "alerts", None, alert)
    assert (wrote.alerts, wrote.reads) == ({alert.key: alert}, {})
    read = take_alert(wrote, "alerts", 4, alert)
    assert (read.alerts, read.reads) == (wrote.alerts, {"alerts": 5})
