"""Cleanings of a driver: when one begins and ends. `core.driver.lateness` decides when it is due."""

from __future__ import annotations

import time
from collections.abc import Callable

from cutwater.core.driver.lateness import StateSpan, due_floor
from cutwater.core.generations.start_state import StartState
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import NOWHERE, Cut
from cutwater.core.protocol.records import Barrier

Record = Callable[[str, float], None]
"""Receives a cleaning that has ended: what it did, and its seconds."""


class Cleanings:
    """The cleanings of one attempt."""

    def __init__(
        self,
        amend_for_ms: int,
        lateness_ms: int,
        cleaned_ms: int,
        rest_s: float,
        record: Record,
        now_s: Callable[[], float] = time.monotonic,
        held_cut: Cut = NOWHERE,
    ) -> None:
        """`cleaned_ms`: the state has no window that ends at or below it; 0 if that is not known. `rest_s`: the
        least time between two cleanings. `held_cut`: no cleaning begins before the events below it are read."""
        self._amend_for_ms, self._lateness_ms = amend_for_ms, lateness_ms
        self._cleaned_ms, self._rest_s = cleaned_ms, rest_s
        self._record, self._now_s, self._held_cut = record, now_s, held_cut
        self._since_s = now_s()

    def due(self, newest: Barrier | None, oldest_ms: int | None, backlog: bool) -> int | None:
        """Return the floor to raise to behind the newest epoch; None if no cleaning is due.

        `oldest_ms`: its oldest event time. `backlog`: whether it read as many events as it may.
        """
        if newest is None:
            return None
        if not self._cleaned_ms:
            self._cleaned_ms = oldest_ms or 0  # the first events of a job: nothing older is in the state
            return None
        if not newest.source_cut.covers(self._held_cut):
            return None
        span = StateSpan(self._cleaned_ms, newest.watermark_ms, newest.watermark_ms + self._lateness_ms)
        return due_floor(span, self._amend_for_ms, self._now_s() - self._since_s, self._rest_s, backlog)

    def begin(self) -> None:
        """Take the time of a cleaning's begin."""
        self._since_s = self._now_s()

    def end(self, floor_ms: int) -> None:
        """Take that the windows up to the floor are evicted."""
        took_s, self._since_s = self._now_s() - self._since_s, self._now_s()
        self._record(f"windows that end up to {floor_ms} were evicted from the state", took_s)
        self._cleaned_ms = floor_ms


def first_floor(origin: StartState, newest: Barrier | None) -> int:
    """Return the floor of a generation that has stored none yet. `newest`: its newest barrier."""
    # Spark has evicted the windows up to the newest watermark, if the job's windows closed by that before.
    return max(origin.floor_ms, newest.floor_ms if newest else 0)


def cleanings_of(
    job: Job,
    origin: StartState,
    newest: Barrier | None,
    rest_s: float,
    record: Record,
    now_s: Callable[[], float] = time.monotonic,
) -> Cleanings:
    """Return the cleanings of a job whose windows close by a floor. `newest`: the generation's newest barrier."""
    return Cleanings(
        (job.amend_for_ms or 0) + job.overlap_ms,
        job.lateness_ms,
        newest.horizon_ms if newest else origin.horizon_ms,
        rest_s,
        record,
        now_s,
        origin.held_cut,
    )
