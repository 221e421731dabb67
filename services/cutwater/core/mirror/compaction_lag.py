"""The origin's compaction lag of a topic, and how long a mirror may rely on it.

An origin may shorten the lag at any time, and its cleaner runs soon after. A copy that relies on the old lag would
treat compacted cuts as complete, for good. So a lag counts only if brokers confirmed it shortly before the records
were read; records already read cannot be compacted away. If brokers did not confirm it because they were
unreachable, new records wait for the answer, but not for ever: brokers may let a topic be read and refuse, or
fail, to return its settings. Then the lag counts as 0. That is always safe: a cut at the log's end is complete
under any lag, and other cuts are skipped.
"""

from __future__ import annotations

from cutwater.core.mirror.copy_progress import NEVER_MS

FRESH_S = 15.0
"""How long an answer counts. Longer than the mirror's poll interval (10 s), so nothing waits while brokers answer;
not longer than the pause of a log cleaner (15 s) before it checks again."""
HELD_S = 60.0
"""How long records wait at most. Reachable brokers answer sooner: a request has 20 s."""


class CompactionLagLease:
    """The compaction lag of one topic. Times are from a monotonic clock."""

    def __init__(self, lag_ms: int, asked_s: float) -> None:
        """`asked_s`: the time of the request; the answer may miss later changes."""
        self._known_ms, self._asked_s = lag_ms, asked_s
        self._waits_s: float | None = None
        self.lag_ms = lag_ms
        """The lag to apply."""
        self.unknown = False
        """Whether copying continues without an answer."""

    def update(self, lag_ms: int, asked_s: float) -> bool:
        """Record an answer; return whether the lag is shorter. A longer lag counts from the next start."""
        shorter = lag_ms < self._known_ms
        self._known_ms, self._asked_s = min(lag_ms, self._known_ms), max(asked_s, self._asked_s)
        self.lag_ms = min(self.lag_ms, self._known_ms)  # `holds` decides about a longer one
        return shorter

    def must_wait(self, came_s: float | None, now_s: float) -> bool:
        """Return whether records must wait, and set `lag_ms` until the next call. `came_s`: the arrival time of
        the newest record; None if there is none."""
        read_s = now_s if came_s is None else came_s
        if self._known_ms == NEVER_MS or read_s - self._asked_s <= FRESH_S:
            self.lag_ms, self._waits_s, self.unknown = self._known_ms, None, False
            return False
        if came_s is not None and self._waits_s is None:
            self._waits_s = now_s
        if self._waits_s is None or now_s - self._waits_s < HELD_S:
            return True
        self.lag_ms, self.unknown = 0, True
        return False

    def old_s(self, now_s: float) -> float:
        """Return the age of the last answer's request."""
        return now_s - self._asked_s
