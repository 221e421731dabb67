"""When a broker's word that a topic does not exist is believed.

A broker that is just back may say so of every topic for a moment. Whoever believed it at once would stop copying
for good what is only away.
"""

from __future__ import annotations


class Absences:
    """Which topics were said not to exist, and since when. Times in seconds, of a clock that never goes back."""

    def __init__(self, believed_s: float) -> None:
        """`believed_s`: for so long it must be said without a break."""
        self._believed_s = believed_s
        self._since_s: dict[str, float] = {}

    def said(self, topic: str, now_s: float) -> bool:
        """A broker says again that there is no such topic: is it to be believed now?"""
        return now_s - self._since_s.setdefault(topic, now_s) >= self._believed_s

    def broken(self, topic: str) -> None:
        """The topic was seen, or nobody answered: what was said before does not count any more."""
        self._since_s.pop(topic, None)
