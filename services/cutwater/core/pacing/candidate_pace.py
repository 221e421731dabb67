"""When a candidate's next epoch may begin: by its share of the time, its rate, and its maintenance windows.

All three end with its promotion: behind it the job lives here, and works at full speed. The share ends earlier,
when the promotion is requested, since an epoch that is read before a rest is old when it is committed.
"""

from __future__ import annotations

from cutwater.core.pacing.schedules import UNBOUND, WorkBounds
from cutwater.core.util.rate_limit import DutyCycle, EventRate

EPOCH_S = 2.0
"""At the bound on its rate, an epoch reads what may be read in this time, so the rests are short and many."""
MORE = 1.5
"""The factor by which a share grows while it is too small, and shrinks again behind that."""
PLENTY = 2.0
"""A candidate that reads so many times what arrives may fall back to the share that was asked for."""


class CandidatePace:
    """The pace of one candidate's driver. `share`: of the time, above 0 and up to 1. Call `record_epoch` after
    each epoch, and `rest_s` before the next one. Seconds are of a monotonic clock."""

    def __init__(self, share: float) -> None:
        self._asked = share
        self._cycle = DutyCycle(share)
        self._rate = EventRate()
        self.bounds = UNBOUND
        """Set by its driver whenever it has looked."""

    def record_epoch(self, since_s: float, until_s: float, events: int) -> None:
        """Take an epoch: when it began and ended, and the events that it read."""
        self._cycle.record_work(since_s, until_s)
        self._rate.record_events(events, since_s)

    def rest_s(self, now_s: float, now_ms: int, requested: bool) -> float:
        """Return the seconds until the next epoch may begin, as far as known now; 0 for at once.

        `requested`: whether the promotion is requested.
        """
        if not self.bounds.windows.is_open(now_ms):
            change_ms = self.bounds.windows.next_change_ms(now_ms)
            return (change_ms - now_ms) / 1_000 if change_ms is not None else EPOCH_S
        shared_s = 0.0 if requested else self._cycle.rest_s(now_s)
        return max(shared_s, self._rate.rest_s(self.bounds.max_events_per_s, now_s))

    def adapt_share(self, reads_per_s: float, comes_per_s: float) -> None:
        """Give the candidate more of the time while it reads less than arrives, and less again behind that."""
        if reads_per_s <= comes_per_s:
            self._cycle.share = min(self._cycle.share * MORE, 1.0)
        elif reads_per_s > PLENTY * comes_per_s:
            self._cycle.share = max(self._cycle.share / MORE, self._asked)

    @property
    def share(self) -> float:
        """The share of the time that is in force."""
        return self._cycle.share

    @property
    def events_max(self) -> int | None:
        """The most events of its next epoch; None without a bound on its rate."""
        rate = self.bounds.max_events_per_s
        return max(int(rate * EPOCH_S), 1) if rate else None


def bounded(bounds: WorkBounds) -> bool:
    """Return whether a schedule bounds anything of the candidate's work."""
    return bool(bounds.windows.windows or bounds.max_events_per_s)
