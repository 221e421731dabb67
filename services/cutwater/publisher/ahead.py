"""While there is a candidate, the states that its hand-over will compare are loaded: it pauses for the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.generations import parent_of
from cutwater.core.candidates import Candidates
from cutwater.core.errors import DivergenceError, MachineError, UsageError
from cutwater.core.generations import Generation
from cutwater.core.job import Job
from cutwater.core.records import Milestone
from cutwater.publisher.states import States, compared_above_ms
from cutwater.views.ahead import LOOK_S, WORKERS, Preload, watch
from cutwater.views.bulk import BULK_RECORDS, Bulk
from cutwater.views.ranges import Stopped
from cutwater.views.store import Store

END_S = 30.0
"""Longer than any question to the brokers."""
Whole = Callable[[], Milestone | None]
"""What is published by now; None for nothing."""


class Ahead:
    """One candidate at a time: so much more disk is needed, and no more."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        states: States,
        log: Any,
        least_records: int = BULK_RECORDS,
        look_s: float = LOOK_S,
    ) -> None:
        """`least_records`: fewer are left to the hand-over."""
        self._cluster, self._job, self._states, self._log = cluster, job, states, log
        self._least_records, self._look_s = least_records, look_s
        self._at_work = threading.Lock()
        """Held by whoever looks, and loads."""
        self._threads: list[threading.Thread] = []

    @contextmanager
    def beside(self, whole: Whole) -> Iterator[None]:
        """Load while the block runs, which publishes one generation. What was loaded then lies in the states.

        A load that is under way ends within about a second.
        """
        self.close()
        stop = threading.Event()
        loads = _Loads(self._cluster, self._job, self._states, whole, stop, self._log, self._least_records)

        def look(known: Candidates) -> None:
            with self._at_work:
                if not stop.is_set():
                    loads.look(known)

        told = (self._cluster, self._job.name, stop, look, self._log, self._look_s)
        self._threads.append(threading.Thread(target=watch, args=told, name="ahead", daemon=True))
        self._threads[0].start()
        try:
            yield
        finally:
            stop.set()
            with self._at_work:  # a question to the brokers may last, and is not waited for
                loads.close()

    def close(self) -> None:
        """Nobody looks any more; of an ended block. Waits until a question to the brokers has had its time."""
        while self._threads:
            self._threads.pop().join(END_S)


class _Loads:
    """Of a candidate's state, and of the published one where no store of it is there."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        states: States,
        whole: Whole,
        stop: threading.Event,
        log: Any,
        least_records: int,
    ) -> None:
        self._cluster, self._job, self._states, self._log = cluster, job, states, log
        self._whole, self._stop, self._least_records = whole, stop, least_records
        self._candidate: Generation | None = None
        self._preloads: dict[Generation, Preload] = {}
        self._given_up: set[Generation] = set()

    def look(self, known: Candidates) -> None:
        """Load what has come since, of the candidate that will likely follow."""
        whole = self._whole()
        if whole is None:
            return
        chosen = known.likely_next(whole, parent_of, self._candidate, self._given_up)
        candidate = chosen.claim.generation if chosen else None
        if candidate != self._candidate:
            self._forget()
            self._candidate = candidate
        if chosen is None or chosen.newest is None:
            return
        try:
            self._load(chosen.newest, whole)
        except Stopped:
            return
        except (DivergenceError, UsageError, MachineError) as error:
            # Deleted at the next look. The hand-over finds the same, or has the room by then.
            self._given_up.add(chosen.claim.generation)
            self._log.warning("a candidate is not loaded ahead", generation=str(candidate), error=str(error))

    def close(self) -> None:
        """The stores are left to the hand-over."""
        for one in self._preloads.values():
            one.close()

    def _load(self, newest: Milestone, whole: Milestone) -> None:
        floor_ms = compared_above_ms(newest, whole)
        for milestone in (newest, whole):
            generation = milestone.generation
            if generation == whole.generation and self._states.lasting:
                continue
            if generation not in self._preloads:
                self._preloads[generation] = Preload(
                    self._job,
                    generation,
                    partial(self._states.open, generation),
                    self._bulk,
                    self._log,
                    self._least_records,
                )
            self._states.ahead(generation, floor_ms)
            self._preloads[generation].up_to(milestone, floor_ms=floor_ms)

    def _bulk(self, store: Store, topic: str) -> Bulk:
        return self._states.bulk(self._cluster, store, topic, self._stop.is_set, WORKERS)

    def _forget(self) -> None:
        self.close()
        for generation in self._preloads:
            self._states.forget(generation)
        self._preloads = {}
