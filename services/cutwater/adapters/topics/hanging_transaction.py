"""Detection of an open transaction that hides later records of a topic, after a long silence.

A reader of committed records waits before a transaction without an end: to it the topic just stops. This happens
if the topic's log has lost the end of its writer's last transaction, or if another process writes there.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.open_transactions import how_to_end
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.cuts import TopicPartition

SILENT_S = 90.0
"""An idle driver and commit-signal write each minute: a reader checks after a longer silence."""
LOOK_S = 15.0
"""Time between two checks. A regular transaction is over long before the second one."""
_PATIENCE_S = 2.0


class HangingTransaction:
    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        writer: str,
        silent_s: float = SILENT_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`writer`: the component that writes there, for the text."""
        self._cluster, self._place, self._writer = cluster, TopicPartition(topic, 0), writer
        self._silent_s, self._look_s, self._clock_s = silent_s, min(LOOK_S, silent_s), clock_s
        self._next_s = clock_s() + silent_s
        self._ends: Offsets | None = None
        self._open_at: int | None = None
        self.text = ""
        """The open transaction and how to end it; empty if there is none or no check has run."""

    def reset(self) -> None:
        """Reset the silence, as something was read."""
        self._next_s = self._clock_s() + self._silent_s
        self._open_at, self.text = None, ""

    def check(self) -> None:
        """Query the brokers if it is time. Waits for seconds at most."""
        if self._clock_s() < self._next_s:
            return
        self._next_s = self._clock_s() + self._look_s
        self._ends = self._ends or Offsets(self._cluster, _PATIENCE_S)
        try:
            seen = self._ends.committed_ends([self._place])[self._place]
            written = self._ends.written_ends([self._place])[self._place]
        except UnavailableError:
            return  # the reader's own client reports it
        again = self._open_at == seen
        self._open_at = seen if seen < written else None
        if self._open_at is None:
            self.text = ""
        elif again:
            self.text = (
                f"{self._place.topic}/0: a transaction is open at offset {seen}, and {written - seen} offsets "
                f"from there on cannot be read. If {self._writer} has none, {how_to_end(self._place, seen)}"
            )
