"""How far something is that takes long: a line once in a while, with its rate, and the time left where known."""

from __future__ import annotations

from typing import NamedTuple

EVERY_S = 5.0


class Rate(NamedTuple):
    """What a line tells."""

    done: int
    per_s: float
    """Since the line before."""
    left_s: float | None
    """None where nothing has moved, or where nobody knows how much it is in all."""


class Rated:
    """Looked at as often as one likes. Not for two threads at once."""

    def __init__(self, total: int | None, now_s: float, every_s: float = EVERY_S) -> None:
        """`total`: of all that is to be done, or the most that it can be."""
        self._total = total
        self._every_s = every_s
        self._said_s, self._said = now_s, 0

    def look(self, done: int, now_s: float) -> Rate | None:
        """What to say now; None where the line before is too young."""
        seconds = now_s - self._said_s
        if seconds < self._every_s:
            return None
        done = max(done, self._said)  # who counts may have forgotten some
        per_s = (done - self._said) / seconds
        left_s = max(0, self._total - done) / per_s if self._total is not None and per_s else None
        self._said_s, self._said = now_s, done
        return Rate(done, per_s, left_s)
