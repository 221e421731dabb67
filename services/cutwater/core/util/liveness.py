"""Are the brokers there? Judged by when they were heard and by questions that they did not answer.

A client that waits for records is not told that its brokers are gone: a network that is cut refuses nothing. So
after a time without a word they are asked, and two questions in a row without an answer mean that they are away.
One alone does not: this process may have stood still, or its first connection be the one that broke.
"""

from __future__ import annotations

QUIET_S = 2.0
"""After so long without a word they are asked."""
AGAIN_S = 1.0
"""And so long after a question that had no answer, again."""
UNANSWERED_MAX = 2


class Contact:
    """What one process knows of its brokers. Moments come from a clock that never goes back."""

    def __init__(self, now_s: float) -> None:
        self.heard_s = now_s
        """When they were heard last."""
        self._asked_s = now_s
        self._unanswered = 0

    @property
    def away(self) -> bool:
        return self._unanswered >= UNANSWERED_MAX

    def due(self, now_s: float) -> bool:
        """Is it time to ask?"""
        if self._unanswered:
            return now_s - self._asked_s >= AGAIN_S
        return now_s - self.heard_s >= QUIET_S

    def heard(self, now_s: float) -> float | None:
        """A record or an answer has come. For how long they were away, where they are back with it."""
        gone_s = now_s - self.heard_s if self.away else None
        self.heard_s, self._unanswered = now_s, 0
        return gone_s

    def unanswered(self, now_s: float) -> bool:
        """A question had no answer; True where that says, for the first time, that they are away."""
        self._asked_s = now_s
        before, self._unanswered = self.away, min(self._unanswered + 1, UNANSWERED_MAX)
        return self.away and not before
