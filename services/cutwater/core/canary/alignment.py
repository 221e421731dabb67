"""Where a canary's epochs end: at the source cuts of the promoted generation's milestones.

Then both have read the same events again and again, and are compared there. It takes one milestone after the
other, so that its watermark rises in the same steps and the same events are late. Only if it is far behind it
takes many at once.
"""

from __future__ import annotations

from collections import deque

from cutwater.core.protocol.cuts import Cut

BEHIND_MAX = 100
"""With more milestones ahead, the next epoch goes to the newest."""
KEPT_MAX = 10_000
"""The most cuts that are kept. The oldest ones go first: a canary that is so far behind passes them anyway."""


class LiveCuts:
    """The source cuts of the promoted generation that the canary has not reached."""

    def __init__(self) -> None:
        self._ahead: deque[Cut] = deque(maxlen=KEPT_MAX)

    def add(self, cut: Cut) -> None:
        """Take the cut of the next milestone."""
        self._ahead.append(cut)

    def next(self, position: Cut) -> Cut:
        """Return where the next epoch ends. `position`: what has been read; returned itself to wait.

        A cut must be at or past the position in every partition: a source does not go back. For a higher position
        it is never a lower one.
        """
        while self._ahead and position.covers(self._ahead[0]):
            self._ahead.popleft()
        reachable = [one for one in self._ahead if one.covers(position)]
        if not reachable:
            return position
        return reachable[-1] if len(reachable) > BEHIND_MAX else reachable[0]
