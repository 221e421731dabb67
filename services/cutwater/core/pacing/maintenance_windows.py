"""Maintenance windows: the times of day at which a candidate may work, by the clocks of one time zone.

A window is open while a wall clock of the zone shows a time in it. So nothing is special at a change of the
clocks: a window that contains the skipped hour is an hour shorter that day, one that contains the repeated hour an
hour longer, and one that lies within the skipped hour does not open that day. Windows repeat every day, so the
next one is never far.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cutwater.core.errors import UsageError

MINUTE_MS = 60_000
DAY_MINUTES = 1_440
DAY_MS = DAY_MINUTES * MINUTE_MS
WINDOWS_MAX = 24
LOOK_AHEAD_DAYS = 4
"""A window that a change of the clocks skips opens a day later, even where a zone has skipped a whole day."""
UTC_NAME = "UTC"

_WINDOW = re.compile(r"([0-2][0-9]):([0-5][0-9])\s*-\s*([0-2][0-9]):([0-5][0-9])")


class Window(NamedTuple):
    """A time of day from `from_min` until before `until_min`, in minutes of the day.

    It is over midnight if the second is the smaller one.
    """

    from_min: int
    until_min: int

    @classmethod
    def parse(cls, text: str) -> Window:
        """Parse `02:00-05:00`. Raises UsageError; the end may be 24:00, and a window is never empty."""
        found = _WINDOW.fullmatch(text.strip())
        numbers = [int(one) for one in found.groups()] if found else [99, 0, 99, 0]
        begin, end = numbers[0] * 60 + numbers[1], numbers[2] * 60 + numbers[3]
        if begin >= DAY_MINUTES or end > DAY_MINUTES or (begin == end % DAY_MINUTES and end != DAY_MINUTES):
            raise UsageError(
                f"'{text}' is no window: write two times of day, as in 02:00-05:00 or 22:30-01:00; 00:00-24:00 is "
                "the whole day"
            )
        return cls(begin, end)

    def holds(self, minute: int) -> bool:
        """Return whether a minute of the day is in the window."""
        if self.from_min < self.until_min:
            return self.from_min <= minute < self.until_min
        return minute >= self.from_min or minute < self.until_min

    def __str__(self) -> str:
        return f"{_clock(self.from_min)}-{_clock(self.until_min)}"


@dataclass(frozen=True)
class MaintenanceWindows:
    """The windows of one candidate; without any, it may always work."""

    windows: tuple[Window, ...] = ()
    zone: str = UTC_NAME

    @classmethod
    def parse(cls, texts: Sequence[str], zone: str = UTC_NAME) -> MaintenanceWindows:
        """Raises UsageError for a text that is no window, for too many, and for an unknown zone."""
        if len(texts) > WINDOWS_MAX:
            raise UsageError(f"{len(texts)} windows are too many: at most {WINDOWS_MAX}")
        zone_of(zone)
        return cls(tuple(Window.parse(one) for one in texts), zone)

    def is_open(self, at_ms: int) -> bool:
        """Return whether a window is open. Raises UsageError if this machine does not know the zone."""
        if not self.windows:
            return True
        clock = self._clock(at_ms // MINUTE_MS)
        return any(one.holds(clock.hour * 60 + clock.minute) for one in self.windows)

    def next_change_ms(self, at_ms: int) -> int | None:
        """Return when a window opens or closes next, after `at_ms`; None if that does not happen."""
        if not self.windows:
            return None
        before, minute = self.is_open(at_ms), at_ms // MINUTE_MS
        last = minute + LOOK_AHEAD_DAYS * DAY_MINUTES
        while minute < last:
            minute += self._step(minute)
            if self.is_open(minute * MINUTE_MS) != before:
                return minute * MINUTE_MS
        return None

    def _step(self, minute: int) -> int:
        """Return the minutes to the next time that begins or ends a window; 1 if the clocks change before."""
        now = self._clock(minute)
        shown = now.hour * 60 + now.minute
        edges = {edge for one in self.windows for edge in (one.from_min, one.until_min % DAY_MINUTES)}
        step = min((edge - shown - 1) % DAY_MINUTES + 1 for edge in edges)
        return step if self._clock(minute + step).utcoffset() == now.utcoffset() else 1

    def _clock(self, minute: int) -> datetime:
        return datetime.fromtimestamp(minute * 60, zone_of(self.zone))

    def spans(self, from_ms: int, until_ms: int) -> Iterator[tuple[bool, int, int]]:
        """Return the parts of a time, in order: whether open, from when and until when."""
        at_ms = from_ms
        while at_ms < until_ms:
            change_ms = self.next_change_ms(at_ms)
            end_ms = until_ms if change_ms is None else min(change_ms, until_ms)
            yield self.is_open(at_ms), at_ms, end_ms
            at_ms = end_ms

    def open_ms(self, from_ms: int, until_ms: int) -> int:
        """Return how much of a time is within windows."""
        return sum(end - begin for is_open, begin, end in self.spans(from_ms, until_ms) if is_open)

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.windows))} {self.zone}" if self.windows else "always"


@lru_cache(maxsize=16)
def zone_of(name: str) -> tzinfo:
    """Return a time zone. Raises UsageError for one that is unknown on this machine."""
    if name == UTC_NAME:
        return UTC  # also on a machine without a database of zones
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"this machine knows no time zone '{name}': write a name such as Europe/Berlin or UTC, or install the "
            "operating system's or Python's package tzdata"
        ) from None


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
