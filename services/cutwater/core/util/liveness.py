"""A failure detector for brokers, by the time since their last answer and by unanswered queries.

A client that waits for records gets no error from a broken network. So the brokers are queried after QUIET_S
without an answer, and two unanswered queries in a row mean that they are away. One query is not enough: this
process may have been paused, or the query may have used a broken connection.
"""

from __future__ import annotations

QUIET_S = 2.0
"""Time without an answer until the first query."""
AGAIN_S = 1.0
"""Time from an unanswered query to the next one."""
UNANSWERED_MAX = 2


class BrokerLiveness:
    """The liveness of the brokers, seen by one process. Times are seconds of a monotonic clock."""

    def __init__(self, now_s: float) -> None:
        self.heard_s = now_s
        self._asked_s = now_s
        self._unanswered = 0

    @property
    def away(self) -> bool:
        return self._unanswered >= UNANSWERED_MAX

    def due(self, now_s: float) -> bool:
        if self._unanswered:
            return now_s - self._asked_s >= AGAIN_S
        return now_s - self.heard_s >= QUIET_S

    def record_answer(self, now_s: float) -> float | None:
        """Note a record or an answer. Return how long the brokers were away if this ends an outage, else None."""
        gone_s = now_s - self.heard_s if self.away else None
        self.heard_s, self._unanswered = now_s, 0
        return gone_s

    def record_timeout(self, now_s: float) -> bool:
        """Note an unanswered query. Return whether the brokers are away since this query."""
        self._asked_s = now_s
        before, self._unanswered = self.away, min(self._unanswered + 1, UNANSWERED_MAX)
        return self.away and not before
