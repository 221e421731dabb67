"""Loads the states that a hand-over will compare while its candidate catches up, to shorten the pause."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import DiskFullError
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.bulk_load import BULK_RECORDS
from cutwater.publisher.handover.state_stores import StateStores, compared_above_ms
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.follow.preload import LOOK_S, NICENESS, WORKERS, CandidateChoice, Preloader, Report, watch
from cutwater.views.store.store import Store

END_S = 2.0
Whole = Callable[[], Milestone | None]
"""Returns the newest milestone that is published; None for none."""


class BackgroundPreload:
    """Preloads in its own thread, while a block runs."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        states: StateStores,
        log: Any,
        now_ms: Callable[[], int],
        least_records: int = BULK_RECORDS,
        look_s: float = LOOK_S,
        report: Report | None = None,
    ) -> None:
        """`least_records`: a smaller changelog is left to the hand-over. `report`: of `CandidateChoice`."""
        self._loads = partial(_Loads, cluster, job, states, log, now_ms, least_records, report)
        self._watch = partial(watch, cluster, job.name, log=log, look_s=look_s)
        self._at_work = threading.Lock()
        """Held while a load runs."""
        self._thread: threading.Thread | None = None

    @contextmanager
    def run_beside(self, whole: Whole) -> Iterator[None]:
        """Preload while the block publishes one generation. The result is in the states. At the block's end a
        running load stops within about a second."""
        stop = threading.Event()
        loads = self._loads(whole, stop)

        def look(known: Candidates) -> None:
            with self._at_work:
                if not stop.is_set():
                    loads.check(known)

        self._thread = threading.Thread(target=self._watch, args=(stop, look), name="ahead", daemon=True)
        self._thread.start()
        try:
            yield
        finally:
            stop.set()
            with self._at_work:  # a slow query to the brokers is not waited for
                loads.close()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join(END_S)


class _Loads:
    """Loads a candidate's state, and the published state if there is no store of it."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        states: StateStores,
        log: Any,
        now_ms: Callable[[], int],
        least_records: int,
        report: Report | None,
        whole: Whole,
        stop: threading.Event,
    ) -> None:
        self._cluster, self._job, self._states, self._log = cluster, job, states, log
        self._now_ms, self._least_records, self._whole, self._stop = now_ms, least_records, whole, stop
        self._choice = CandidateChoice(self._keep, self._load, log, report)
        self._preloads: dict[Generation, Preloader] = {}

    def check(self, known: Candidates) -> None:
        """Load the new rows of the likely next candidate."""
        whole = self._whole()
        if whole is not None:
            self._choice.load_next(known, whole)

    def close(self) -> None:
        # The hand-over takes the stores.
        for one in self._preloads.values():
            one.close()

    def _keep(self, candidate: Generation | None) -> None:
        # While there is a candidate, the published state is kept, too.
        whole = self._whole()
        kept = {candidate, whole.generation if whole else None} if candidate else set()
        for generation in self._preloads.keys() - kept:
            self._preloads.pop(generation).close()
            self._states.drop_preload(generation)

    def _load(self, candidate: Candidate, newest: Milestone) -> None:
        whole = self._whole()
        if whole is None:
            return
        if not self._states.roomy():  # this also stops a running load
            raise DiskFullError("the disk has too little free space to load states ahead of the hand-over")
        floor_ms = compared_above_ms(self._job.overlap_ms, newest, whole) - self._job.overlap_ms
        self._up_to(newest, floor_ms)
        if self._states.lasting:
            return
        self._up_to(whole, floor_ms)
        old, new = (self._preloads[one].store for one in (whole.generation, newest.generation))
        if old is not None and new is not None:
            self._states.compare_ahead(old, new, floor_ms, self._stopping, self._log)

    def _up_to(self, milestone: Milestone, floor_ms: int) -> None:
        generation, now_ms = milestone.generation, self._now_ms()
        if generation in self._preloads and self._states.has_preload_gap(generation, floor_ms):
            self._preloads.pop(generation).close()
        if generation not in self._preloads:
            self._states.drop_preload(generation)
            opened = partial(self._states.open_preload, milestone)
            self._preloads[generation] = Preloader(
                self._job, generation, opened, self._bulk, self._log, self._least_records
            )
        stale = self._states.is_preload_stale(generation, now_ms)
        # Rows above the cut were written after the milestone, even if they are loaded much later.
        at_ms = min(now_ms, milestone.written_ms)
        self._states.mark_preload_started(generation, floor_ms, at_ms)
        if self._preloads[generation].up_to(milestone, floor_ms=floor_ms, however_little=stale):
            self._states.mark_preload_complete(generation, at_ms)

    def _bulk(self, store: Store, topic: str) -> BulkLoader:
        return self._states.bulk(self._cluster, store, topic, self._stopping, WORKERS, NICENESS)

    def _stopping(self) -> bool:
        return self._stop.is_set() or not self._states.roomy()
