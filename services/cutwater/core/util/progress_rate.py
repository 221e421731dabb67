"""Progress lines of a long operation, with the rate and, if known, the remaining time."""

from __future__ import annotations

from typing import NamedTuple

EVERY_S = 5.0


class Rate(NamedTuple):
    done: int
    per_s: float
    """Since the previous line."""
    left_s: float | None
    """None if there was no progress, or the total is unknown."""


class ProgressRate:
    """Limits progress lines to one per `every_s`. Not thread-safe."""

    def __init__(self, total: int | None, now_s: float, every_s: float = EVERY_S) -> None:
        """`total`: the amount of work, or its upper bound; None if unknown."""
        self._total = total
        self._every_s = every_s
        self._said_s, self._said = now_s, 0

    def next_line(self, done: int, now_s: float) -> Rate | None:
        """Return the next line; None if the previous one is more recent than `every_s`."""
        seconds = now_s - self._said_s
        if seconds < self._every_s:
            return None
        done = max(done, self._said)  # the caller's count may go back
        per_s = (done - self._said) / seconds
        left_s = max(0, self._total - done) / per_s if self._total is not None and per_s else None
        self._said_s, self._said = now_s, done
        return Rate(done, per_s, left_s)
