"""The mirror's lag, for its metrics: a thread queries the origin every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future

from cutwater.core.errors import CutwaterError
from cutwater.core.mirror.arrivals import ArrivalTracker
from cutwater.core.mirror.replica_lag import Pace, SafeTime, awaited, safe_time
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.mirror.topics.background import run_in_background
from cutwater.mirror.topics.origin import Origin

ASK_S = 5.0


class LagProbe:
    """Queries the origin now and then; without its answer, its part is unknown."""

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
        self._answer: Future[dict[TopicPartition, int] | None] | None = None

    def measure(self, ledger: ArrivalTracker) -> SafeTime | None:
        """Return the replica's lag; None without a new result. Does not block."""
        if self._answer is None and self._clock_s() - self._asked_s >= ASK_S:
            self._asked_s = self._clock_s()
            copies = awaited(ledger.copies(), ledger.arrived)
            places = [TopicPartition(one.topic, one.partition) for one in copies]
            self._answer = run_in_background("ends", lambda: self._ends(places))
        if self._answer is None or not self._answer.done():
            return None
        answer, self._answer = self._answer, None
        copies, now = awaited(ledger.copies(), ledger.arrived), self._now_ms()
        for one in copies:
            self._pace.take(one)
        pace, ends = self._pace.per_second(now), answer.result(ASK_S)  # already done
        return safe_time(self._region, copies, ledger.arrived, ledger.newest, ends, pace, now)

    # From here on: in a thread.

    def _ends(self, places: list[TopicPartition]) -> dict[TopicPartition, int] | None:
        try:
            return self._origin.ends(places)
        except CutwaterError:
            return None
