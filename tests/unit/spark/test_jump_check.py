"""`max_jump`: which bound an epoch's event times ask for, by what was read before it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from cutwater.core.driver.time_jumps import Segment
from cutwater.core.generations.start_state import FIRST
from cutwater.core.protocol.cuts import EpochPlan
from cutwater_spark.epoch.time_jumps import BoundChangedError, JumpCheck
from support.protocol_samples import source_cut

HOUR_MS = 3_600_000


def check(newest_ms: int | None, watermark_ms: int, amends: bool) -> list[int | None]:
    """Check an epoch whose partitions are two hours apart, with a jump of one; return the bounds that were set."""
    kept: list[int | None] = []
    lists: Any = SimpleNamespace(
        event_times=lambda _range, _step: [
            Segment(HOUR_MS, HOUR_MS + 5, 3),
            Segment(3 * HOUR_MS, 3 * HOUR_MS + 5, 3),
        ]
    )
    checkpoint: Any = SimpleNamespace(plan=lambda epoch: EpochPlan(source_cut(epoch), watermark_ms))
    before = (lambda _epoch: newest_ms) if amends else None
    one = JumpCheck(
        lists, checkpoint, FIRST, HOUR_MS, 1_000, None, None, kept.append, structlog.get_logger(), before
    )
    try:
        one.check_epoch(1)
    except BoundChangedError:
        return kept
    assert not kept
    return []


@pytest.mark.parametrize(("newest_ms", "bounds"), [(3 * HOUR_MS, []), (HOUR_MS, [3 * HOUR_MS])])
def test_an_event_follows_from_any_that_was_read_before(newest_ms: int, bounds: list[int | None]) -> None:
    """Of a job that amends by the events themselves, of another one by Spark's watermark."""
    assert check(newest_ms, 0, amends=True) == bounds
    assert check(None, newest_ms - 1_000, amends=False) == bounds
