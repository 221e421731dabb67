"""When a cleaning of a driver begins: not while its floor is held for events that are still to be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cutwater.core.generations.start_state import FIRST
from cutwater.core.protocol.cuts import Cut
from cutwater_spark.epoch.cleanings import Cleanings, cleanings_of, first_floor
from support.output_samples import example_job
from support.protocol_samples import barrier, source_cut

NOW_S = 1_000.0


def cleanings(**more: Any) -> Cleanings:
    """Ten of event time are kept behind the watermark, and a cleaning may begin at once."""
    return Cleanings(10, 5, 1, 0.0, lambda _what, _seconds: None, lambda: NOW_S, **more)


def test_a_held_floor_is_not_raised_before_the_events_are_read() -> None:
    """Each partition must be there; the epoch that reaches the last one is free."""
    due = barrier(3, watermark_ms=1_000)
    assert cleanings().due(due, None, False) == 990
    assert cleanings(held_cut=source_cut(3)).due(due, None, False) == 990
    assert cleanings(held_cut=source_cut(4)).due(due, None, False) is None
    [(first, end), _] = source_cut(3)
    assert cleanings(held_cut=Cut.of({first: end + 1})).due(due, None, False) is None


def test_a_generation_that_is_started_again_holds_its_floor_still(tmp_path: Path) -> None:
    """Whatever barrier is its newest: the cut to hold for is what it was claimed with."""
    job = replace(example_job(tmp_path), amend_for_ms=10, lateness_ms=5)
    origin = replace(FIRST, floor_ms=40, horizon_ms=40, held_cut=source_cut(4))
    due = barrier(3, watermark_ms=1_000)
    for newest in (None, barrier(1, horizon_ms=50, floor_ms=50)):
        found = cleanings_of(job, origin, newest, 0.0, lambda _what, _seconds: None, lambda: NOW_S)
        assert found.due(due, None, False) is None
        assert found.due(barrier(4, watermark_ms=1_000), None, False) == 990


def test_the_first_floor_is_never_below_the_newest_barriers() -> None:
    """A generation that has stored none yet closed its windows by Spark's watermark before."""
    origin = replace(FIRST, floor_ms=40)
    assert first_floor(FIRST, None) == 0
    assert first_floor(origin, None) == 40
    assert first_floor(origin, barrier(1, floor_ms=50)) == 50
    assert first_floor(origin, barrier(1, floor_ms=30)) == 40
