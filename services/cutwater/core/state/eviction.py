"""`max_bytes`: which of the oldest closed windows a view lets go of, where its state is larger than it may be.

Whole time segments only, so that it costs one range deletion. A window is closed when the watermark has reached
its end; an open one stays, whatever it takes. What was let go does not come back: the lower bound never falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Eviction(NamedTuple):
    lower_ms: int | None
    """Windows that end at or below it are not in the view; None: nothing was evicted so far."""
    segments: tuple[int, ...]
    """Those to be dropped now, the oldest first."""
    bytes: int
    """That they hold."""
    left_bytes: int
    """That stay."""
    over_bytes: int
    """By how much they are more than may be: open windows alone are too many. 0: they are not."""


def evict(
    segments: Mapping[int, int],
    length_ms: int,
    max_bytes: int,
    watermark_ms: int,
    horizon_ms: int,
    lower_ms: int | None,
) -> Eviction:
    """The fewest segments, oldest first, by which the state comes down to `max_bytes`.

    `segments`: the bytes of each by its number; segment n holds the windows that end in (n·length, (n+1)·length].
    Those that horizon or lower bound have passed are gone, whatever is said of them.
    """
    gone_ms = horizon_ms if lower_ms is None else max(horizon_ms, lower_ms)
    held = {number: size for number, size in segments.items() if size and (number + 1) * length_ms > gone_ms}
    left, dropped = sum(held.values()), []
    for number in sorted(held):
        if left <= max_bytes or (number + 1) * length_ms > watermark_ms:
            break
        left -= held[number]
        dropped.append(number)
    lower = (dropped[-1] + 1) * length_ms if dropped else lower_ms
    freed = sum(held[number] for number in dropped)
    return Eviction(lower, tuple(dropped), freed, left, max(0, left - max_bytes))
