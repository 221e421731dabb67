"""Size limit `max_bytes`: the oldest closed windows that a view evicts if its state is too large.

Whole time segments are evicted, each by one range deletion. A window is closed when the watermark reaches its end;
open windows stay, whatever their size. The lower bound never falls, so evicted windows do not return.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Eviction(NamedTuple):
    lower_ms: int | None
    """Windows that end at or below it are not in the view; None: nothing has been evicted so far."""
    segments: tuple[int, ...]
    """The segments to drop now, oldest first."""
    bytes: int
    """Bytes in the dropped segments."""
    left_bytes: int
    """Bytes that stay."""
    over_bytes: int
    """Bytes above `max_bytes` that stay, because the open windows alone exceed it; 0: none."""


def evict(
    segments: Mapping[int, int],
    length_ms: int,
    max_bytes: int,
    watermark_ms: int,
    horizon_ms: int,
    lower_ms: int | None,
) -> Eviction:
    """Return the fewest segments, oldest first, whose removal brings the state down to `max_bytes`.

    `segments`: bytes by segment number; segment n holds the windows that end in (n·length, (n+1)·length]. Segments
    that the horizon or the lower bound has passed count as gone.
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
