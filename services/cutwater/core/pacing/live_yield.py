"""When the promoted driver waits before an epoch, so that a slower candidate catches up.

The two may share cores, and the target moves: the candidate must reach the promoted generation's newest
milestone. While the promoted driver waits, the target stands still, and the candidate has the cores for itself.
What came meanwhile is read in one larger epoch, which is cheaper for each event. So a candidate that is the slower
one beside the promoted driver converges, if it is the faster one alone for a part of the time. Each wait is
bounded, and waits that bring the candidate no nearer end.
"""

from __future__ import annotations

from typing import NamedTuple

FASTER = 1.1
"""A candidate that reads so many times what arrives needs no help."""
NEAR_S = 10.0
"""A candidate that is behind by no more than arrives in this time is near: only its promotion needs help."""
PATIENCE_S = 300.0
"""Waits end if the candidate has come no nearer for so long."""
NEARER = 0.99
"""It has come nearer if its lag is below this share of the least one so far."""


class Progress(NamedTuple):
    """How a candidate follows the promoted driver's newest epoch."""

    events_left: int
    reads_per_s: float | None
    """None before its second milestone."""
    comes_per_s: float
    promoting: bool
    """Whether its promotion is requested."""
    limited: bool = False
    """Whether the bound on its rate is what makes it slow: no wait makes it faster."""


class LiveYield:
    """Decides for one candidate. `wants_wait` says whether the promoted driver may wait now."""

    def __init__(self) -> None:
        self._helping = False
        self._least = 0
        self._least_s = 0.0
        self.given_up = False
        """Waits did not bring it nearer."""

    def wants_wait(self, found: Progress | None, now_s: float) -> bool:
        """Return whether a wait helps. `found`: None without a candidate that may be helped, or with one whose
        windows are closed. `now_s`: of a monotonic clock."""
        if found is None or not found.events_left:
            self._helping = False
            return False
        if self.given_up:
            return False
        near = found.events_left <= found.comes_per_s * NEAR_S
        wanted = found.promoting if near else self._helping or _too_slow(found)
        if found.limited and not near:
            wanted = False
        if wanted and not self._helping:
            self._least, self._least_s = found.events_left, now_s
        self._helping = wanted
        return wanted and self._comes_nearer(found.events_left, now_s)

    def _comes_nearer(self, events_left: int, now_s: float) -> bool:
        if events_left < NEARER * self._least:
            self._least, self._least_s = events_left, now_s
        self.given_up = now_s - self._least_s > PATIENCE_S
        return not self.given_up


def _too_slow(found: Progress) -> bool:
    return found.reads_per_s is not None and found.reads_per_s < FASTER * found.comes_per_s
