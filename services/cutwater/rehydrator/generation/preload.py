"""Preloads a candidate's rows beside the view that is shown, so that its promotion has few rows left to read.

The promoted generation's view continues from them; rows of a candidate that is not promoted are deleted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from cutwater.adapters.config.held_part import HeldPart, holding_of
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.fetch.native_rows import usable
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.bulk_load import BULK_RECORDS
from cutwater.views.bulk.loader import BulkLoader, Unobserved
from cutwater.views.follow.preload import LOOK_S, NICENESS, WORKERS, CandidateChoice, Preloader, Report, watch
from cutwater.views.store.folders import folder_of, preload_folder, remove_ahead
from cutwater.views.store.store import Store
from cutwater.views.store.table import RocksTable


class CandidatePreloader:
    """Preloads candidates; `run` needs a thread of its own."""

    def __init__(
        self,
        job: Job,
        settings: Settings,
        behind: Callable[[], Milestone | None],
        full: Callable[[], bool],
        log: Any,
        least_records: int = BULK_RECORDS,
        look_s: float = LOOK_S,
        report: Report | None = None,
    ) -> None:
        """`behind`: the milestone shown; None during a switch. `full`: whether the disk is full, which drops the
        preload. `least_records`: the smallest number of records worth preloading. `report`: of `CandidateChoice`.
        """
        self._job, self._settings, self._log = job, settings, log
        self._behind, self._full = behind, full
        self._least_records, self._look_s = least_records, look_s
        self._at_work = threading.Lock()
        """Held to open, load or delete."""
        self._held, self._stop = threading.Event(), threading.Event()
        self._preload: Preloader | None = None
        self._choice = CandidateChoice(self._keep, self._load, log, report)
        self._shown = settings.views_dir
        """The folder of the view that is shown."""

    def stop(self) -> None:
        """End `run` within about a second, or after the time-out of a query to the brokers."""
        self._stop.set()

    def pause(self) -> bool:
        """Open nothing until `resume`. Return False while a load is still ending: call again."""
        self._held.set()
        if not self._at_work.acquire(blocking=False):
            return False
        try:
            self._close()
            return True
        finally:
            self._at_work.release()

    def resume(self) -> None:
        """Preload again after `pause`."""
        self._held.clear()

    def run(self) -> None:
        """Load until stopped. Errors are logged and retried: the view does not need the preload."""
        watch(self._settings.cluster, self._job.name, self._stop, self._look, self._log, self._look_s)
        with self._at_work:
            self._close()

    def _look(self, known: Candidates) -> None:
        with self._at_work:
            behind = self._behind()
            if self._held.is_set() or behind is None:
                self._close()
                return
            if self._full():
                self._choice.give_up()
            self._shown = folder_of(self._settings.views_dir, self._job.name, behind.generation)
            self._choice.load_next(known, behind)

    def _keep(self, generation: Generation | None) -> None:
        self._close()
        if removed := remove_ahead(self._shown, generation):
            self._log.info("preloaded rows are deleted", generations=removed)

    def _load(self, candidate: Candidate, milestone: Milestone) -> None:
        """Load the records below a candidate's milestone cut, if many are missing."""
        generation = candidate.claim.generation
        job = GenerationJobs.on(self._settings.cluster, self._job).of_candidate(candidate)
        settings = self._settings.model_copy(update={"generation": generation})
        holding, _ = holding_of(settings, job)
        native = settings.native and usable() and holding.selection is None

        def bulk(store: Store, topic: str) -> BulkLoader:
            return BulkLoader(
                settings.cluster,
                job,
                topic,
                store,
                Unobserved(),
                WORKERS,
                self._stopping,
                native=native,
                niceness=NICENESS,
            )

        if self._preload is None:
            opened = partial(self._opened, job, settings, holding)
            self._preload = Preloader(job, generation, opened, bulk, self._log, self._least_records)
        self._preload.up_to(milestone, holding.partitions)

    def _opened(self, job: Job, settings: Settings, holding: HeldPart) -> Store:
        folder = preload_folder(folder_of(settings.views_dir, job.name, settings.generation))
        table = partial(RocksTable, memory_bytes=settings.view_memory_mb << 20)
        held, selection = holding.partitions, holding.selection
        return Store(folder, job, settings.generation, None, table, held, selection=selection)

    def _stopping(self) -> bool:
        return self._stop.is_set() or self._held.is_set()

    def _close(self) -> None:
        preload, self._preload = self._preload, None
        if preload is not None:
            preload.close()
