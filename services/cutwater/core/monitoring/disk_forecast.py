"""When a disk is full, at the rate at which its free space has shrunk.

The slope is robust (Theil and Sen: the median of the slopes between all pairs of samples), so a compaction, a
snapshot or a deleted file in between does not change it. Two histories are kept: of an hour and of a day. A
history tells nothing about more than some times its own length, and nothing if its slopes contradict each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import quantiles
from typing import NamedTuple

SCALES = ((60_000, 60), (900_000, 96))
"""The time between two samples in ms, and their number: an hour, and a day."""
SAMPLES_MIN = 12
AHEAD = 12
"""A history of an hour tells about twelve hours, one of a day about twelve days."""


class FreeSpace(NamedTuple):
    """A sample."""

    at_ms: int
    free_bytes: int


class Forecast(NamedTuple):
    full_in_ms: float | None
    """The time until the disk is full; None if its free space does not shrink, or not within what can be told."""
    span_ms: int
    """The length of the history that it is from; 0 while too little is known."""


UNKNOWN = Forecast(None, 0)


@dataclass(frozen=True)
class Disk:
    """A disk's free space now, and its history by scale. Times in ms since 1970."""

    total_bytes: int
    newest: FreeSpace
    histories: tuple[tuple[FreeSpace, ...], ...] = ((),) * len(SCALES)
    forecasts: tuple[Forecast, ...] = (UNKNOWN,) * len(SCALES)
    """One of each history."""

    @property
    def forecast(self) -> Forecast:
        """The one that is full first; if none is, the one of the longest history."""
        return min(self.forecasts, key=lambda one: (one.full_in_ms is None, one.full_in_ms or -one.span_ms))


def add_sample(disk: Disk | None, at_ms: int, free_bytes: int, total_bytes: int) -> Disk:
    """Return the disk with one more look at it. One of another size is another disk."""
    newest = FreeSpace(at_ms, free_bytes)
    if disk is None or disk.total_bytes != total_bytes or at_ms < disk.newest.at_ms:
        disk = Disk(total_bytes, newest)
    histories = tuple(
        _with_sample(history, newest, every_ms, number)
        for history, (every_ms, number) in zip(disk.histories, SCALES, strict=True)
    )
    forecasts = tuple(
        known if now is before else forecast_from(now)
        for now, before, known in zip(histories, disk.histories, disk.forecasts, strict=True)
    )
    return replace(disk, newest=newest, histories=histories, forecasts=forecasts)


def forecast_from(history: Sequence[FreeSpace]) -> Forecast:
    """Return the forecast of one history, oldest first."""
    if len(history) < SAMPLES_MIN:
        return UNKNOWN
    span_ms = history[-1].at_ms - history[0].at_ms
    _, slope, upper = quantiles(_slopes(history), n=4)
    # If a quarter of the pairs says that space is gained, nothing is known of a loss.
    if upper >= 0:
        return Forecast(None, span_ms)
    full_in_ms = history[-1].free_bytes / -slope
    return Forecast(full_in_ms if full_in_ms <= AHEAD * span_ms else None, span_ms)


def _with_sample(
    history: tuple[FreeSpace, ...], sample: FreeSpace, every_ms: int, number: int
) -> tuple[FreeSpace, ...]:
    if history and sample.at_ms - history[-1].at_ms < every_ms:
        return history
    return (*history, sample)[-number:]


def _slopes(history: Sequence[FreeSpace]) -> list[float]:
    """Return the bytes per ms between each two samples."""
    return [
        (later.free_bytes - earlier.free_bytes) / (later.at_ms - earlier.at_ms)
        for number, later in enumerate(history)
        for earlier in history[:number]
        if later.at_ms > earlier.at_ms
    ]
