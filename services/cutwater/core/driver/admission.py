"""How many events the next epoch may read: as many as an epoch of some seconds takes, within the job's bounds.

An epoch has costs of its own (planning, commit), so in a backlog it is large. But a killed epoch is repeated, and
readers wait for its end: an epoch that takes long shrinks the next one. An epoch that reads less than it may says
nothing about a larger one, and changes nothing.
"""

from __future__ import annotations

TARGET_S = 5.0
"""The time that an epoch of a backlog may take."""
FIRST = 200_000
"""The events of a driver's first epoch, in which the JVM compiles what it runs."""
COLD = 0.5
"""The share of the first full epoch's time that says something about the second one."""
LEAST = 10_000
"""No time makes an epoch smaller: what it costs then is its own."""
STEP = 4.0
"""The limit grows or shrinks at most by this factor."""
FULL = 0.5
"""The share of its limit from which an epoch's time says something about the limit."""


class EventBytes:
    """The size of one event's value, of a driver's epochs so far."""

    def __init__(self) -> None:
        self._bytes = 0.0

    def add(self, events: int, size: int) -> None:
        """Take an epoch's events, at least one, and the bytes of their values."""
        # The larger of both: the next events may be as large as these, or as the earlier ones.
        self._bytes = max(size / events, (size / events + self._bytes) / 2)

    def events_of(self, size: int) -> float | None:
        """Return how many events have so many bytes; None if that is not known."""
        return size / self._bytes if self._bytes else None


class Admission:
    """The limit of one driver's epochs. `events_max`, `bytes_max`: the job's bounds."""

    def __init__(self, events_max: int, bytes_max: int, target_s: float = TARGET_S) -> None:
        self._events_max, self._bytes_max, self._target_s = events_max, bytes_max, target_s
        self._event_bytes, self._cold = EventBytes(), True
        self.limit = min(events_max, FIRST)
        """The events that the next epoch may read."""

    def is_full(self, events: int) -> bool:
        """Return whether an epoch of so many events has read about as many as it may."""
        return events >= FULL * self.limit

    def epoch_took(self, events: int, size: int, seconds: float) -> None:
        """Take an epoch's events, the bytes of their values, and its time."""
        if not events:
            return
        self._event_bytes.add(events, size)
        limit = float(self.limit)
        if self.is_full(events):
            warm_s, self._cold = seconds * COLD if self._cold else seconds, False
            wanted = events * self._target_s / max(warm_s, 1e-3)
            limit = max(min(max(wanted, limit / STEP), limit * STEP), LEAST)
        fitting = self._event_bytes.events_of(self._bytes_max)
        if fitting is not None:
            limit = min(limit, fitting)
        self.limit = min(max(int(limit), 1), self._events_max)
