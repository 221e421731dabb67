"""Do driver and commit-signal of a stack wait for another region? Asked again each time: a wait ends."""

from __future__ import annotations

from collections.abc import Callable

from cutwater.core.errors import CutwaterError
from cutwater.core.failover.rejoin import Found

Look = Callable[[], Found]


class Elsewhere:
    """What they would be told now. Nobody waits where no other region is named."""

    def __init__(self, look: Look = lambda: Found(False)) -> None:
        self._look = look

    def still(self) -> bool:
        """Whoever may not go on at all does not wait either: it leaves by itself, and says why."""
        try:
            return self._look().waits
        except CutwaterError:
            return False
