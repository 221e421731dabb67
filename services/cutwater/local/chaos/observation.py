"""Looks at a running job, at fixed intervals, from a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.adapters.topics.alerts import read_alerts
from cutwater.core.chaos.recovery import Look
from cutwater.core.errors import CutwaterError
from cutwater.core.job.job import Job
from cutwater.core.monitoring.alerts import Alert

LOOK_S = 0.5
SLOW_S = 3.0
"""Brokers that took longer for a look did not answer."""
LOOKS_MAX = 200_000


class Observation:
    """Takes looks inside a `with` block; `looks` has them in their order."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        arrived_ms: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The time of the looks begins now. `arrived_ms`: asks another region for its newest arrival's commit."""
        self._cluster, self._job, self._arrived_ms, self._clock = cluster, job, arrived_ms, clock
        self.began_s = clock()
        self.looks: list[Look] = []
        self.alerts: dict[str, Alert] = {}
        """Every alert that was active at a look, by kind and part."""
        self._one_at_a_time = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observation", daemon=True)

    def __enter__(self) -> Observation:
        self.look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(timeout=60)

    @property
    def now_s(self) -> float:
        return self._clock() - self.began_s

    def look(self) -> Look:
        """Take one look and return it. It begins now, or once that of the other thread has ended."""
        with self._one_at_a_time:
            made = self._take(self.looks[-1] if self.looks else Look(0.0, 0, 0, frozenset()))
            if len(self.looks) < LOOKS_MAX:
                self.looks.append(made)
            return made

    def _take(self, before: Look) -> Look:
        asked_s = self._clock()
        try:
            produced = commit_stream.source_end(self._cluster, self._job.topic).records
            newest = commit_stream.milestones(self._cluster, self._job.name, 1)
            active = {f"{one.kind}/{one.part}": one for one in self._known() if one.on}
        except CutwaterError:
            return before._replace(at_s=self.now_s, answers=False)
        read = newest[0][0].source_cut.records if newest else 0
        self.alerts |= active
        answers = self._clock() - asked_s <= SLOW_S
        # A milestone that a rollback has withdrawn was read, too.
        counts = max(produced, before.produced), max(read, before.read)
        lag_s = self._region_lag_s(newest[0][0].committed_ms, before) if newest else None
        return Look(self.now_s, *counts, frozenset(active), answers, lag_s)

    def _region_lag_s(self, committed_ms: int, before: Look) -> float | None:
        if self._arrived_ms is None:
            return None
        try:
            return max(0, committed_ms - self._arrived_ms()) / 1_000
        except CutwaterError:
            return before.region_lag_s

    def _known(self) -> list[Alert]:
        return list(read_alerts(self._cluster, self._job.name).values())

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S):
            self.look()
