"""Checks whether a stack's driver and commit-signal wait for another region."""

from __future__ import annotations

from collections.abc import Callable

from cutwater.core.errors import CutwaterError
from cutwater.core.failover.rejoin import ResumeDecision

Look = Callable[[], ResumeDecision]


class RegionWait:
    """The check with the other region. Without one, they never wait."""

    def __init__(self, look: Look = lambda: ResumeDecision(False)) -> None:
        self._look = look

    def is_waiting(self) -> bool:
        # A process that must not continue at all does not wait: it exits with its reason.
        try:
            return self._look().waits
        except CutwaterError:
            return False
