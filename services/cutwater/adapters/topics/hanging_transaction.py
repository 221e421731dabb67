"""Does an open transaction hide what is written to a topic? Looked for if nothing has come for long.

A reader of committed records waits in front of a transaction that has no end: to it the topic just stops. That
is so if the topic's log has lost the end of its writer's last transaction, or if somebody else writes there.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Ends
from cutwater.adapters.topics.own_writes import how_to_end
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.cuts import TopicPartition

SILENT_S = 90.0
"""The driver of an idle job, and commit-signal, say so each minute: who hears nothing for longer looks."""
LOOK_S = 15.0
"""Between two looks. A transaction of theirs is over long before the second one."""
_PATIENCE_S = 2.0


class HangingTransaction:
    """Of one topic with one partition."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        writer: str,
        silent_s: float = SILENT_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`writer`: who writes there, for the text."""
        self._cluster, self._place, self._writer = cluster, TopicPartition(topic, 0), writer
        self._silent_s, self._look_s, self._clock_s = silent_s, min(LOOK_S, silent_s), clock_s
        self._next_s = clock_s() + silent_s
        self._ends: Ends | None = None
        self._open_at: int | None = None
        self.text = ""
        """What hides it, and how that is ended; empty where nothing does, or nobody has looked."""

    def came(self) -> None:
        """Something was read."""
        self._next_s = self._clock_s() + self._silent_s
        self._open_at, self.text = None, ""

    def look(self) -> None:
        """Ask the brokers, if it is time. Waits for seconds at most."""
        if self._clock_s() < self._next_s:
            return
        self._next_s = self._clock_s() + self._look_s
        self._ends = self._ends or Ends(self._cluster, _PATIENCE_S)
        try:
            seen = self._ends.committed([self._place])[self._place]
            written = self._ends.written([self._place])[self._place]
        except UnavailableError:
            return  # the reader's own client says so
        again = self._open_at == seen
        self._open_at = seen if seen < written else None
        if self._open_at is None:
            self.text = ""
        elif again:
            self.text = (
                f"{self._place.topic}/0: a transaction is open at offset {seen}, and {written - seen} offsets "
                f"from there on cannot be read. If {self._writer} has none, {how_to_end(self._place, seen)}"
            )
