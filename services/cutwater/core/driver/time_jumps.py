"""Events far ahead of all others: which of an epoch's event times follow from what was there, and which jump.

Time moves on in steps: an event time follows if one at most `max_jump` before it was there already, earlier or in
the same epoch. What lies beyond a larger gap jumps, all of it; it is held back, so that it closes no window. So a
backlog read in large epochs is never held, as long as its events are dense, and a job whose source was silent for
longer than `max_jump` uses nothing until somebody sets it longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

NOTHING_HELD = None


class Segment(NamedTuple):
    """Some event times of an epoch that lie within one step of each other."""

    first_ms: int
    last_ms: int
    events: int


def held_from(segments: Sequence[Segment], newest_ms: int | None, max_jump_ms: int) -> int | None:
    """The oldest event time that jumps; None where none does.

    `newest_ms`: the newest event time of all epochs before. Where there was none, time begins with the median one.
    """
    ordered = sorted(segments)
    newest = newest_ms if newest_ms is not None else _median(ordered)
    for one in ordered:
        if one.first_ms > newest + max_jump_ms:
            return one.first_ms
        newest = max(newest, one.last_ms)
    return NOTHING_HELD


def judged_alike(segments: Sequence[Segment], wanted_ms: int | None, held_ms: int | None) -> bool:
    """Does a bound that is in force hold the same of these events as the wanted one?

    What is at or behind a bound is held; None holds nothing.
    """
    for one in segments:
        want = wanted_ms is not None and one.first_ms >= wanted_ms
        ends = {held_ms is not None and at >= held_ms for at in (one.first_ms, one.last_ms)}
        if ends != {want}:
            return False
    return True


def _median(ordered: Sequence[Segment]) -> int:
    """An event time of the segment that holds the one in the middle."""
    left = sum(one.events for one in ordered) // 2
    for one in ordered:
        if left < one.events:
            return one.last_ms
        left -= one.events
    return 0
