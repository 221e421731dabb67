"""The mirror's lag, for its metrics: a thread queries the origin every few seconds."""

from __future__ import annotations

from cutwater.core.errors import CutwaterError
from cutwater.core.mirror.arrivals import ArrivalTracker
from cutwater.core.mirror.replica_lag import Pace, SafeTime, awaited, safe_time
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.mirror.topics.background import PeriodicQuery
from cutwater.mirror.topics.context import MirrorContext

ASK_S = 5.0


class LagProbe:
    """Queries the origin now and then; without its answer, its part is unknown."""

    def __init__(self, context: MirrorContext) -> None:
        self._context = context
        self._pace = Pace()
        self._query: PeriodicQuery[dict[TopicPartition, int] | None] = PeriodicQuery(
            "ends", ASK_S, context.clock_s, at_once=True
        )

    def measure(self, ledger: ArrivalTracker) -> SafeTime | None:
        """Return the replica's lag; None without a new result. Does not block."""
        if self._query.due:
            copies = awaited(ledger.copies(), ledger.arrived)
            places = [TopicPartition(one.topic, one.partition) for one in copies]
            self._query.begin(lambda: self._ends(places))
        if not self._query.answered:
            return None
        ends = self._query.take()
        copies, now = awaited(ledger.copies(), ledger.arrived), self._context.now_ms()
        for one in copies:
            self._pace.take(one)
        pace = self._pace.per_second(now)
        return safe_time(self._context.region, copies, ledger.arrived, ledger.newest, ends, pace, now)

    # From here on: in a thread.

    def _ends(self, places: list[TopicPartition]) -> dict[TopicPartition, int] | None:
        try:
            return self._context.origin.ends(places)
        except CutwaterError:
            return None
