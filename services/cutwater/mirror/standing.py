"""How far the mirror is behind, for its metrics: asked of the origin every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

from cutwater.core.arrivals import Ledger
from cutwater.core.cuts import TopicPartition
from cutwater.core.errors import CutwaterError
from cutwater.core.safe_time import Pace, SafeTime, awaited, safe_time
from cutwater.mirror.origin import Origin

ASK_S = 5.0


class Standing:
    """Looks once in a while; while the origin does not answer, its part is not known."""

    def __init__(
        self,
        origin: Origin,
        region: str,
        now_ms: Callable[[], int],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._origin, self._region = origin, region
        self._now_ms, self._clock_s = now_ms, clock_s
        self._asked_s = clock_s() - ASK_S
        self._pace = Pace()

    def look(self, ledger: Ledger) -> SafeTime | None:
        """How the replica stands; None where it is not time to look."""
        if self._clock_s() - self._asked_s < ASK_S:
            return None
        self._asked_s = self._clock_s()
        copies, now = awaited(ledger.copies(), ledger.arrived), self._now_ms()
        for one in copies:
            self._pace.take(one)
        places = [TopicPartition(one.topic, one.partition) for one in copies]
        pace = self._pace.per_second(now)
        return safe_time(self._region, copies, ledger.arrived, ledger.newest, self._ends(places), pace, now)

    def _ends(self, places: list[TopicPartition]) -> dict[TopicPartition, int] | None:
        try:
            return self._origin.ends(places)
        except CutwaterError:
            return None
