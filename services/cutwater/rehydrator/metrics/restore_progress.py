"""Progress of a bulk restore, for log and metrics: records loaded, rate, remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cutwater.core.state.bulk_load import Done
from cutwater.rehydrator.metrics.metrics import Metrics

TELL_S = 5.0


class Loading:
    """Implements `cutwater.views.bulk.loader.Observer`: one line every 5 seconds."""

    def __init__(
        self, metrics: Metrics, log: Any, native: bool, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._metrics = metrics
        self._log = log
        self._native = native
        self._clock_s = clock_s
        self._first: tuple[float, int] | None = None
        self._told_s = 0.0

    def loaded(self, done: Done, records_max: int) -> None:
        self._metrics.loaded(done, records_max)
        now_s = self._clock_s()
        if self._first is None or done.records < self._first[1]:
            self._first, self._told_s = (now_s, done.records), now_s
            return
        began_s, before = self._first
        over = done.records >= records_max
        if now_s - self._told_s < TELL_S and not over:
            return
        self._told_s = now_s
        rate = (done.records - before) / max(now_s - began_s, 0.001)
        self._log.info(
            "loading",
            records=done.records,
            of=records_max,
            megabytes=round(done.bytes / 1e6),
            records_per_s=round(rate),
            native=self._native,
            seconds_left=round((records_max - done.records) / rate) if rate and not over else 0,
        )
