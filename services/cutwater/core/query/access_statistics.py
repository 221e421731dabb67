"""How often keys and windows are read: the most read ones of the last minutes, in bounded memory.

Reads are counted by period. The period before is kept, so that a report covers one to two of them. A count is too
small by at most the error that the report names (`Heaviest`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cutwater.core.state.size_census import Heaviest

PERIOD_MS = 900_000
NAMES_HELD = 4_000
"""Keys, and windows, that are counted separately in a period: fewer are counted exactly."""
SHOWN = 100


class ReadCount(NamedTuple):
    """Of a key, or of a window by its start in ms."""

    name: str
    reads: int


class AccessReport(NamedTuple):
    """The reads since a time, the most read keys and windows first."""

    since_ms: int
    reads: int
    """Of keys, each request for a key once."""
    keys: tuple[ReadCount, ...]
    keys_error: int
    windows: tuple[ReadCount, ...]
    """Each window once for each answer that has it."""
    windows_error: int


class _Period:
    def __init__(self, begin_ms: int) -> None:
        self.begin_ms = begin_ms
        self.reads = 0
        self.keys, self.windows = Heaviest(NAMES_HELD // 2), Heaviest(NAMES_HELD // 2)


class AccessStatistics:
    """The counts of this process. Not thread-safe."""

    def __init__(self) -> None:
        self._before: _Period | None = None
        self._now: _Period | None = None

    def count(self, key: str, windows_ms: Iterable[int], now_ms: int) -> None:
        """Count one read of a key, which was answered with these windows."""
        period = self._period(now_ms)
        period.reads += 1
        period.keys.add(key, 1)
        for start_ms in windows_ms:
            period.windows.add(str(start_ms), 1)

    def report(self, now_ms: int, shown: int = SHOWN) -> AccessReport:
        """Return what is known now."""
        now = self._period(now_ms)
        periods = [one for one in (self._before, now) if one is not None]
        keys, keys_error = _joined([one.keys for one in periods])
        windows, windows_error = _joined([one.windows for one in periods])
        return AccessReport(
            periods[0].begin_ms,
            sum(one.reads for one in periods),
            keys[:shown],
            keys_error,
            windows[:shown],
            windows_error,
        )

    def _period(self, now_ms: int) -> _Period:
        """Return the period of a time. A clock that was set back begins none."""
        if self._now is None:
            self._now = _Period(now_ms)
        passed = (now_ms - self._now.begin_ms) // PERIOD_MS
        if passed >= 1:
            self._before = self._now if passed == 1 else None
            self._now = _Period(self._now.begin_ms + passed * PERIOD_MS)
        return self._now


def _joined(counts: list[Heaviest]) -> tuple[tuple[ReadCount, ...], int]:
    sums: dict[str, int] = {}
    for one in counts:
        for name, count in one.first(2 * NAMES_HELD):
            sums[name] = sums.get(name, 0) + count
    ordered = sorted(sums.items(), key=lambda one: (-one[1], one[0]))
    return tuple(ReadCount(*one) for one in ordered), sum(one.error for one in counts)
