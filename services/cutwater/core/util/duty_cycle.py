"""The pause of a candidate between two epochs, so that its catch-up takes a bounded share of the machine."""

from __future__ import annotations

REST_MAX_S = 30.0
"""The longest pause, because it delays a stop of the query. A share that needs a longer one is exceeded."""


class DutyCycle:
    """Work is followed by a proportional pause. Times are seconds of a monotonic clock."""

    def __init__(self, share: float) -> None:
        """`share`: the share of the time that may be work, above 0 and up to 1."""
        self._share = share
        self._rested_s = 0.0

    def record_work(self, since_s: float, until_s: float) -> None:
        owed = (until_s - since_s) * (1 / self._share - 1)
        self._rested_s = until_s + min(owed, REST_MAX_S)

    def rest_s(self, now_s: float) -> float:
        """Return the rest of the pause. Idle time counts as pause."""
        return max(0.0, self._rested_s - now_s)
