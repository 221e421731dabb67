"""A debounce for "topic does not exist".

A broker that has just restarted may report this for every topic. Without the debounce, a mirror would permanently
stop copying such topics.
"""

from __future__ import annotations


class TopicAbsence:
    """Topics that are reported as missing, and since when. Times are seconds of a monotonic clock."""

    def __init__(self, believed_s: float) -> None:
        """`believed_s`: how long a topic must be reported as missing without a break."""
        self._believed_s = believed_s
        self._since_s: dict[str, float] = {}

    def record_missing(self, topic: str, now_s: float) -> bool:
        """Note that a broker reports the topic as missing. Return whether it has been missing for `believed_s`."""
        return now_s - self._since_s.setdefault(topic, now_s) >= self._believed_s

    def reset(self, topic: str) -> None:
        """Note that the topic was seen, or that no broker answered: the time starts again."""
        self._since_s.pop(topic, None)
