"""What is said of a part in one line, where there is not enough to say more."""

from __future__ import annotations

import pytest

from cutwater.core.monitoring.alert_rules import Limits
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.monitoring.status_text import status_by_part
from support.protocol_samples import GENERATION, JOB, barrier

LIMITS = Limits(60_000, 180_000, 120_000, 300_000, 10, 1_000, 0.02, 3_600_000)


@pytest.mark.parametrize(
    ("took_ms", "events", "left"),
    [
        (1_000, 100, ", 100 events/s before: about 5 s left"),
        (1, 100, ", 100,000 events/s before: about 0 s left"),
        (0, 100, ""),
        (-1, 100, ""),
        (1_000, 0, ""),
    ],
)
def test_the_time_that_is_left_needs_an_epoch_with_events_that_took_some(
    took_ms: int, events: int, left: str
) -> None:
    """By a clock that was set back an epoch takes no time, or less: then no rate is known."""
    newest = barrier(3, events=events, epoch_started_ms=10_000, written_ms=10_000 + took_ms)
    state = JobStatus(JOB, GENERATION, spoke_ms=20_000, processed=newest, waiting=500)
    told = status_by_part(state, LIMITS, 23_000)["driver"]
    assert told == f"at epoch 4: nothing heard for 3 s, 500 events wait{left}"
