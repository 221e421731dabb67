"""Limits: bytes per second, events per second, a share of the time."""

from __future__ import annotations

PIECE_S = 5.0
"""The time that one piece takes at the limit. Brokers that accept no higher rate must acknowledge a piece well
before the timeout (20 s)."""


class Throttle:
    """Bytes are sent first, followed by a proportional wait. Times are seconds of a monotonic clock."""

    def __init__(self, bytes_per_s: int) -> None:
        """`bytes_per_s`: 0 for no limit."""
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0

    def record_bytes(self, size: int, now_s: float) -> None:
        if self._bytes_per_s:
            self._free_s = max(self._free_s, now_s) + size / self._bytes_per_s

    def piece(self, most: int) -> int:
        """Return how many bytes may be sent at once, at most `most`."""
        return min(most, max(1, int(PIECE_S * self._bytes_per_s))) if self._bytes_per_s else most

    def free(self, now_s: float) -> bool:
        return now_s >= self._free_s


REST_MAX_S = 30.0
"""The longest pause, because it delays a stop of the query. A share that needs a longer one is exceeded."""


class DutyCycle:
    """Work is followed by a proportional pause. Times are seconds of a monotonic clock."""

    def __init__(self, share: float) -> None:
        """`share`: the share of the time that may be work, above 0 and up to 1."""
        self.share = share
        """May be changed; counts from the next work on."""
        self._rested_s = 0.0

    def record_work(self, since_s: float, until_s: float) -> None:
        owed = (until_s - since_s) * (1 / self.share - 1)
        self._rested_s = until_s + min(owed, REST_MAX_S)

    def rest_s(self, now_s: float) -> float:
        """Return the rest of the pause. Idle time counts as pause."""
        return max(0.0, self._rested_s - now_s)


class EventRate:
    """Events are read at once, followed by a proportional wait. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._events, self._since_s = 0, 0.0

    def record_events(self, events: int, since_s: float) -> None:
        """Take the events that were read from `since_s` on."""
        self._events, self._since_s = events, since_s

    def rest_s(self, events_per_s: int, now_s: float) -> float:
        """Return the rest of the wait. `events_per_s`: 0 for no limit; it may be another one each time."""
        if not events_per_s:
            return 0.0
        return max(0.0, self._since_s + self._events / events_per_s - now_s)
