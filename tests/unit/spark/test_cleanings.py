"""When a cleaning of a driver begins: not while its floor is held for events that are still to be read."""

from __future__ import annotations

from typing import Any

from cutwater.core.protocol.cuts import Cut
from cutwater_spark.epoch.cleanings import Cleanings
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
