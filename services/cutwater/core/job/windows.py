"""Event-time windows, aligned to the epoch as Spark aligns them. All times in milliseconds, UTC."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cutwater.core.errors import UsageError

MAX_WINDOWS_PER_EVENT = 1_000
PANES_MAX = 1_000
"""The most panes of a window: each is a row."""


@dataclass(frozen=True)
class WindowSpec:
    """Windows of `size_ms` starting every `slide_ms`; tumbling when the two are equal."""

    size_ms: int
    slide_ms: int

    def __post_init__(self) -> None:
        if self.size_ms <= 0 or self.slide_ms <= 0:
            raise UsageError("a window's size and slide must be longer than zero")
        if self.slide_ms > self.size_ms:
            raise UsageError(
                f"slide ({self.slide_ms} ms) is longer than size ({self.size_ms} ms): events between two "
                "windows would be in neither; make the slide at most the size"
            )
        if self.size_ms > self.slide_ms * MAX_WINDOWS_PER_EVENT:
            raise UsageError(
                f"an event would be in more than {MAX_WINDOWS_PER_EVENT} windows; make the slide longer"
            )

    @property
    def tumbling(self) -> bool:
        return self.size_ms == self.slide_ms

    @property
    def panes(self) -> WindowSpec:
        """The windows whose merges these windows are: each holds whole panes, and each event is in one pane."""
        pane_ms = math.gcd(self.size_ms, self.slide_ms)
        return WindowSpec(pane_ms, pane_ms)

    @property
    def panes_max(self) -> int:
        """The number of panes of a window."""
        return self.size_ms // self.panes.size_ms

    @property
    def per_event_max(self) -> int:
        """The largest number of windows that hold an event."""
        return -(-self.size_ms // self.slide_ms)

    def starts(self, event_time_ms: int) -> list[int]:
        newest = event_time_ms - event_time_ms % self.slide_ms
        oldest = event_time_ms - self.size_ms + 1
        first = oldest + -oldest % self.slide_ms
        return list(range(first, newest + 1, self.slide_ms))


def horizon_ms(watermark_ms: int, retention_ms: int) -> int:
    """Return the horizon: windows that end at or below it are not part of the state. It is never negative."""
    return max(0, watermark_ms - retention_ms)
