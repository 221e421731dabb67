"""For how long the origin's compaction spares a topic's records, as far as a mirror may go by it.

An origin may shorten the lag at any moment, and its cleaner begins soon after. A copy that goes by the old one
takes for whole what compaction has had already, for good. So a lag counts only while brokers have said it a moment
before it was read: what is read already no compaction takes. Where they have not, because they were away, what has
come since waits for their answer. It does not wait for ever:
brokers may let a topic be read and refuse, or fail, to say its settings. Then it is copied as if nothing were
spared. That is never wrong: a cut at which the log ended is whole under any lag, and the others are passed over.
"""

from __future__ import annotations

from cutwater.core.mirror.copy_progress import NEVER_MS

FRESH_S = 15.0
"""What was asked so long ago still counts. Longer than the mirror rests between two looks (10 s): nothing waits
while brokers answer. And no longer than a log cleaner rests (15 s) before it looks whether it may take more."""
HELD_S = 60.0
"""So long what has come waits at most. Brokers that are back answer in less: a question has 20 s."""


class Spared:
    """Of one topic. Moments come from a clock that never goes back."""

    def __init__(self, lag_ms: int, asked_s: float) -> None:
        """`asked_s`: when the question began; whatever has changed since may not be in the answer."""
        self._known_ms, self._asked_s = lag_ms, asked_s
        self._waits_s: float | None = None
        self.lag_ms = lag_ms
        """To go by."""
        self.unknown = False
        """Is it gone on without an answer?"""

    def told(self, lag_ms: int, asked_s: float) -> bool:
        """Brokers have said it again; is it shorter than it was? A longer one counts from the next start."""
        shorter = lag_ms < self._known_ms
        self._known_ms, self._asked_s = min(lag_ms, self._known_ms), max(asked_s, self._asked_s)
        self.lag_ms = min(self.lag_ms, self._known_ms)  # a longer one only once it is looked at whether it holds
        return shorter

    def holds(self, came_s: float | None, now_s: float) -> bool:
        """Has what has come, or may come, to wait? `lag_ms` is what to go by until the next time.

        `came_s`: when the newest of it came; None where there is nothing.
        """
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
        """How long ago it was asked."""
        return now_s - self._asked_s
