"""Events that were recorded, again and again in their order, with event times of now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from cutwater.core.load.load_draw import PLAIN, Drawn
from cutwater.core.load.time_field import TimeField


class Recorded(NamedTuple):
    event: Mapping[str, Any]
    """As its topic has it, with its own event time."""
    at_us: int
    """The event time."""


class RecordedDraw:
    """Implements `cutwater.core.load.load_draw.Events`. An event is as far behind now as it was behind the newest
    one before it. `records` are in the order of their arrival, and at least one."""

    def __init__(self, records: Sequence[Recorded], time: TimeField) -> None:
        self._time = time
        newest_us, made = records[0].at_us, []
        for one in records:
            newest_us = max(newest_us, one.at_us)
            made.append((one.event, newest_us - one.at_us))
        self._records = cycle(made)

    def next(self, at_s: float, at_ms: int) -> Drawn:
        event, behind_us = next(self._records)
        return Drawn(PLAIN, _with(event, self._time.steps, self._time.value(at_ms * 1_000 - behind_us)))


def _with(event: Mapping[str, Any], steps: Sequence[str], value: Any) -> dict[str, Any]:
    """Return the event with another value of one field. The event stays as it is."""
    inner = value if len(steps) == 1 else _with(event[steps[0]], steps[1:], value)
    return {**event, steps[0]: inner}
