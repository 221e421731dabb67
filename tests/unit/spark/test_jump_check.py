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


def check(newest_ms: int | None, watermark_ms: int) -> list[int | None]:
    """Check an epoch whose partitions are two hours apart, with a jump of one; return the bounds that were set."""
    kept: list[int | None] = []
    segments = [Segment(at, at + 5, 3) for at in (HOUR_MS, 3 * HOUR_MS)]
    lists: Any = SimpleNamespace(event_times=lambda _range, _step: segments)
    checkpoint: Any = SimpleNamespace(plan=lambda epoch: EpochPlan(source_cut(epoch), watermark_ms))
    log = structlog.get_logger()
    one = JumpCheck(
        lists, checkpoint, FIRST, HOUR_MS, 1_000, None, None, kept.append, log, lambda _epoch: newest_ms
    )
    try:
        one.check_epoch(1)
    except BoundChangedError:
        return kept
    assert not kept
    return []


@pytest.mark.parametrize(("newest_ms", "bounds"), [(3 * HOUR_MS, []), (HOUR_MS, [3 * HOUR_MS])])
def test_an_event_follows_from_any_that_was_read_before(newest_ms: int, bounds: list[int | None]) -> None:
    """Whichever tells more: barriers, or Spark's watermark, which is a floor of a job that amended until now."""
    assert check(newest_ms, 0) == bounds
    assert check(newest_ms, 5) == bounds
    assert check(None, newest_ms - 1_000) == bounds
    assert check(5, newest_ms - 1_000) == bounds
