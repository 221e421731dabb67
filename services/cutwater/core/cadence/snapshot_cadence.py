"""The time between two snapshots of a view, for a job's objective for recovery.

A view that has lost its disk fetches the newest snapshot, and applies the rows behind it. So the longer the time
between two, the more rows; and the cheaper the snapshots, since files that two of them share are uploaded once.
"""

from __future__ import annotations

import math

from cutwater.core.cadence.decisions import SNAPSHOTS, Allowance, Decision

AIM = 0.9
"""The share of the objective that is aimed at. Restores are faster besides, by pieces larger than milestones."""
START_S = 5.0
"""From a rehydrator's start until it fetches."""
FETCH_BYTES_PER_S = 200e6
"""Of a snapshot, if none was fetched yet."""
REPLAY_ROWS_PER_S = 100_000.0
"""Of a changelog, if it was not seen yet: a fifth of what one process reached (benchmarks/README.md, B1)."""
ROWS_MIN = 1_000
"""A milestone with fewer rows says nothing about the rate of a restore."""
RATE_S = 20.0
"""About the time that the rate of rows is taken over."""
EVERY_S_MIN, EVERY_S_MAX = 30.0, 3_600.0
SHORTER, LONGER = 1.05, 1.1
"""An interval that is wanted within these factors of the one in force changes nothing."""
LATER_S = 120.0
"""So long all milestones must want a longer interval."""


class SnapshotCadence:
    """The interval of one view's snapshots. Times are seconds of one clock that never goes back."""

    def __init__(self, recovery_ms: int, every_ms: int) -> None:
        """`every_ms`: in force until the first decision."""
        self._recovery_s = recovery_ms / 1_000
        self.every_ms = every_ms
        self._allowance = Allowance()
        self._rows_per_s = 0.0
        self._replay_rows_per_s = 0.0
        self._fetch_s = 0.0
        self._at_s: float | None = None
        self._longer_since_s: float | None = None
        self._least_s = 0.0
        """The least interval that was wanted since then."""

    def begin(self) -> Decision:
        """Return the first decision: what is in force before any milestone."""
        return Decision(SNAPSHOTS, {"snapshot_every_ms": self.every_ms}, "the view starts: nothing is known yet")

    def fetched(self, seconds: float) -> None:
        """Take the time that a restore from a snapshot took."""
        self._fetch_s = seconds

    def uploaded(self, size: int) -> None:
        """Take the bytes of a snapshot, with the files that earlier ones have too."""
        self._fetch_s = max(self._fetch_s, size / FETCH_BYTES_PER_S)

    def applied(self, rows: int, seconds: float, now_s: float) -> Decision | None:
        """Take a milestone: its rows, and the time to apply them. Return the decision that changes `every_ms`."""
        before_s, self._at_s = self._at_s, now_s
        if rows >= ROWS_MIN and seconds > 0:
            share = 1 / 8 if self._replay_rows_per_s else 1.0
            self._replay_rows_per_s += share * (rows / seconds - self._replay_rows_per_s)
        if before_s is None or now_s <= before_s:
            return None
        took_s = now_s - before_s
        share = 1 - math.exp(-took_s / RATE_S) if self._rows_per_s else 1.0
        self._rows_per_s += share * (rows / took_s - self._rows_per_s)
        wanted_s, why = self._wanted()
        due_s = self._due(wanted_s, now_s)
        if due_s is None or not self._allowance.take(now_s):
            return None
        before, self.every_ms = self.every_ms, round(due_s * 1_000)
        self._longer_since_s = None
        inputs = {
            "rows_per_s": self._rows_per_s,
            "replay_rows_per_s": self._replay_rows_per_s or REPLAY_ROWS_PER_S,
            "fetch_s": self._fetch_s,
        }
        return Decision(
            SNAPSHOTS, {"snapshot_every_ms": self.every_ms}, why, {"snapshot_every_ms": before}, inputs
        )

    def _wanted(self) -> tuple[float, str]:
        replay_s = AIM * self._recovery_s - START_S - self._fetch_s
        if replay_s <= 0:
            return EVERY_S_MIN, (
                f"a start and the fetch of a snapshot take {START_S + self._fetch_s:.1f} s: a view that has lost "
                f"its disk cannot recover within {self._recovery_s:g} s"
            )
        rows = replay_s * (self._replay_rows_per_s or REPLAY_ROWS_PER_S)
        every_s = min(max(rows / max(self._rows_per_s, 1e-9), EVERY_S_MIN), EVERY_S_MAX)
        return every_s, (
            f"a restore applies {rows:,.0f} rows in {replay_s:.1f} s, and {self._rows_per_s:,.0f} come a second"
        )

    def _due(self, wanted_s: float, now_s: float) -> float | None:
        """Return the interval to decide on: at once a shorter one, after a while a longer one; else None."""
        every_s = self.every_ms / 1_000
        if wanted_s * SHORTER < every_s:
            return wanted_s
        if not (wanted_s > LONGER * every_s or wanted_s == EVERY_S_MAX > every_s):
            self._longer_since_s = None
            return None
        if self._longer_since_s is None:
            self._longer_since_s, self._least_s = now_s, wanted_s
        self._least_s = min(self._least_s, wanted_s)
        return self._least_s if now_s - self._longer_since_s >= LATER_S else None
