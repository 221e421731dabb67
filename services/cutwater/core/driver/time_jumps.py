"""Detection of event times that jump far ahead of all others.

An event time follows if another one at most `max_jump` before it was seen, earlier or in the same epoch. All later
event times jump: they are held back so that they close no window. So a backlog of dense events is never held.
After a silence of the source longer than `max_jump`, a job uses no event until an operator increases it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

NOTHING_HELD = None


class Segment(NamedTuple):
    """Event times of an epoch that are within one step of each other."""

    first_ms: int
    last_ms: int
    events: int


def held_from(segments: Sequence[Segment], newest_ms: int | None, max_jump_ms: int) -> int | None:
    """Return the oldest event time that jumps; None if none does. `newest_ms`: the newest event time of all
    earlier epochs; None: time starts at the median event time."""
    ordered = sorted(segments)
    newest = newest_ms if newest_ms is not None else _median(ordered)
    for one in ordered:
        if one.first_ms > newest + max_jump_ms:
            return one.first_ms
        newest = max(newest, one.last_ms)
    return NOTHING_HELD


def judged_alike(segments: Sequence[Segment], wanted_ms: int | None, held_ms: int | None) -> bool:
    """Return whether the bound in force holds back the same events as the wanted one. Events at or after a bound
    are held; None holds nothing."""
    for one in segments:
        want = wanted_ms is not None and one.first_ms >= wanted_ms
        ends = {held_ms is not None and at >= held_ms for at in (one.first_ms, one.last_ms)}
        if ends != {want}:
            return False
    return True


def _median(ordered: Sequence[Segment]) -> int:
    """Return an event time of the segment with the median event."""
    left = sum(one.events for one in ordered) // 2
    for one in ordered:
        if left < one.events:
            return one.last_ms
        left -= one.events
    return 0
