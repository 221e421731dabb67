"""Rows of a candidate, loaded beside the view that is shown: at its promotion only the rest is left to be read.

Nothing is shown of them, and nothing is proved. What lies there is as a load leaves it that was broken off,
without any milestone, and the promoted generation's view goes on with it. Its first milestone is proved as if all
had been read then: the rows of its epoch stand above what was loaded, or were counted for that very epoch. A
candidate that comes to nothing leaves nothing here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any

from cutwater.adapters.avro import crc64
from cutwater.adapters.clientlog import QUIET
from cutwater.adapters.generations import candidacy, parent_of, with_partitions
from cutwater.adapters.holding import Holding, holding_of
from cutwater.adapters.kafka import partition_count
from cutwater.adapters.native import usable
from cutwater.adapters.settings import Settings
from cutwater.adapters.streams import Tail
from cutwater.core import topics
from cutwater.core.bulk import Done, Slice, left
from cutwater.core.candidates import Candidate, Candidates
from cutwater.core.errors import DivergenceError, MachineError, UsageError
from cutwater.core.generations import Generation
from cutwater.core.job import Job
from cutwater.core.records import Milestone
from cutwater.views.bulk import BULK_RECORDS, Bulk, Unobserved
from cutwater.views.leftovers import ahead_of, remove_ahead
from cutwater.views.proving import require_schema
from cutwater.views.ranges import Stopped
from cutwater.views.store import Store, folder_of
from cutwater.views.table import RocksTable

LOOK_S = 2.0
RETRY_S = 20.0
WORKERS = 1
"""Nobody waits for it, and somebody asks the view that is shown."""


class Ahead:
    """`run` belongs in a thread of its own. One candidate at a time: so much more disk is needed, and no more."""

    def __init__(
        self,
        job: Job,
        settings: Settings,
        behind: Callable[[], Milestone | None],
        full: Callable[[], bool],
        log: Any,
        least_records: int = BULK_RECORDS,
        look_s: float = LOOK_S,
    ) -> None:
        """`behind`: what is shown; None while another generation takes its place. `full`: has that no room on the
        disk? Then what was loaded gives way.

        `least_records`: fewer are left to whoever shows them.
        """
        self._job, self._settings, self._log = job, settings, log
        self._behind, self._full = behind, full
        self._least_records, self._look_s = least_records, look_s
        self._known = Candidates()
        self._at_work = threading.Lock()
        """Held by whoever opens, loads or deletes."""
        self._held, self._stop = threading.Event(), threading.Event()
        self._store: Store | None = None
        self._generation: Generation | None = None
        """Whose folder is kept."""
        self._done: Done | None = None
        self._tidied = False
        self._given_up: set[Generation] = set()

    def stop(self) -> None:
        """End `run` within about a second, or once a question to the brokers has had its time."""
        self._stop.set()

    def let_go(self) -> bool:
        """Open nothing any more, until `go_on`. False while a load is under way, which ends soon: ask again."""
        self._held.set()
        if not self._at_work.acquire(blocking=False):
            return False
        try:
            self._close()
            return True
        finally:
            self._at_work.release()

    def go_on(self) -> None:
        """What was let go is no candidate any more, or nothing was."""
        self._held.clear()

    def run(self) -> None:
        """Load until stopped. What goes wrong is logged and tried again: the view does without it."""
        said = ""
        while not self._stop.is_set():
            try:
                self._follow()
            except Exception as error:  # whatever it is: what is shown does not depend on it
                if str(error) != said:
                    said = str(error)
                    self._log.warning("candidates are not looked for", error=said)
                self._stop.wait(RETRY_S)
        with self._at_work:
            self._close()

    def _follow(self) -> None:
        partition_count(self._settings.cluster, topics.candidates(self._job.name))
        self._known = Candidates()
        # Asked every few seconds, and idle nearly always.
        idle = {**QUIET, "fetch.wait.max.ms": 500}
        with closing(Tail(self._settings.cluster, topics.candidates(self._job.name), **idle)) as tail:
            while not self._stop.wait(self._look_s):
                for record in tail.to_end():
                    self._known = self._known.after(candidacy(record))
                with self._at_work:
                    self._look()

    def _look(self) -> None:
        behind = self._behind()
        if self._held.is_set() or behind is None:
            self._close()
            return
        if self._generation is not None and self._full():
            self._given_up.add(self._generation)
        chosen = self._known.likely_next(behind, parent_of, self._generation, self._given_up)
        generation = chosen.claim.generation if chosen else None
        if not self._tidied or generation != self._generation:
            self._close()
            shown = folder_of(self._settings.views_dir, self._job.name, behind.generation)
            if removed := remove_ahead(shown, generation):
                self._log.info("what was loaded ahead is deleted", generations=removed)
            self._tidied, self._generation, self._done = True, generation, None
        if chosen is None or chosen.newest is None:
            return
        try:
            self._load(chosen, chosen.newest)
        except Stopped:
            return
        except (DivergenceError, UsageError, MachineError) as error:
            # It is deleted at the next look. Whoever is to show it finds the same, or has the room by then.
            self._given_up.add(chosen.claim.generation)
            self._log.warning("a candidate is not loaded ahead", generation=str(generation), error=str(error))

    def _load(self, candidate: Candidate, milestone: Milestone) -> None:
        """Everything below the cut of a candidate's milestone, where that is much more than there is already."""
        generation, began_s = candidate.claim.generation, time.monotonic()
        job = with_partitions(self._job, candidate.claim.partitions)
        settings = self._settings.model_copy(update={"generation": generation})
        holding, _ = holding_of(settings, job.shards)
        slices = [
            Slice(place.partition, 0, end)
            for place, end in milestone.changelog_cut
            if holding.partitions is None or place.partition in holding.partitions
        ]
        if sum(one.records_max for one in left(slices, self._done or Done({}))) < self._least_records:
            return
        topic = topics.changelog(job.name, generation)
        require_schema(topic, milestone, crc64(job.state_schema).hex())
        store = self._store = self._store or self._opened(job, settings, holding)
        native = settings.native and usable() and holding.selection is None
        bulk = Bulk(settings.cluster, job, topic, store, Unobserved(), WORKERS, self._stopping, native=native)
        self._done = bulk.load(milestone, slices)
        self._log.info(
            "loaded ahead",
            generation=str(generation),
            epoch=milestone.epoch,
            records=self._done.records,
            seconds=round(time.monotonic() - began_s, 3),
        )

    def _opened(self, job: Job, settings: Settings, holding: Holding) -> Store:
        folder = ahead_of(folder_of(settings.views_dir, job.name, settings.generation))
        table = partial(RocksTable, memory_bytes=settings.view_memory_mb << 20)
        held, selection = holding.partitions, holding.selection
        return Store(folder, job, settings.generation, None, table, held, selection=selection)

    def _stopping(self) -> bool:
        return self._stop.is_set() or self._held.is_set()

    def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            with suppress(MachineError):  # whoever opens it next is told
                store.close()
