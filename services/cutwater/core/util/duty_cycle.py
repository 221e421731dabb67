"""How long a candidate rests between two epochs, so that its catch-up takes a bounded share of the machine."""

from __future__ import annotations

REST_MAX_S = 30.0
"""A rest holds up who wants to stop the query; a share that needs more is not kept."""


class Pace:
    """Work first, paid for by resting. Moments come from a clock that never goes back, in seconds."""

    def __init__(self, share: float) -> None:
        """Of the time that passes, above 0 and up to 1, so much may be work."""
        self._share = share
        self._rested_s = 0.0
        """Until then."""

    def worked(self, since_s: float, until_s: float) -> None:
        owed = (until_s - since_s) * (1 / self._share - 1)
        self._rested_s = until_s + min(owed, REST_MAX_S)

    def rest_s(self, now_s: float) -> float:
        """How long it has to rest yet; time in which there was nothing to do counts."""
        return max(0.0, self._rested_s - now_s)
