"""The publisher's own stores, one per generation: those of mode `final`, or what a hand-over compares."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from cutwater.adapters.cluster import Cluster
from cutwater.core import topics
from cutwater.core.generations import Generation
from cutwater.core.job import Job
from cutwater.core.records import Milestone
from cutwater.core.restore import Entry, Jump
from cutwater.views.applier import Applier
from cutwater.views.bulk import BULK_RECORDS, Bulk, Unobserved
from cutwater.views.proving import Overtaken
from cutwater.views.ranges import Ranges
from cutwater.views.store import Store


def compared_above_ms(to: Milestone, whole: Milestone) -> int:
    """Windows that end at or below it are not compared: the output has said all of them that it ever will.

    `to`: where a hand-over leads; `whole`: what is published.
    """
    # In a rewind the target's horizon is the lower one. Else windows that only its horizon has passed may have
    # changed, or closed, since what is published.
    return min(to.horizon_ms, whole.horizon_ms, whole.watermark_ms)


class States:
    """Folders below one of their own; nobody else writes there."""

    def __init__(
        self,
        root: Path,
        job: Job,
        segment: int | None = None,
        lasting: bool = False,
        workers: int = 1,
        native: bool = False,
        least_records: int = BULK_RECORDS,
    ) -> None:
        """`segment`: the length of a time segment in ms, where the usual one does not suit. `lasting`: is the
        store of the generation that is published kept? Else stores are there for the time of a hand-over.

        `workers`, `native`, `least_records`: how much is read into one, as `Bulk` says.
        """
        self.lasting = lasting
        self._root = root
        self._workers, self._native, self._least_records = workers, native, least_records
        self._job = job
        self._segment = segment
        self._ahead_above_ms: dict[Generation, int] = {}
        """Of what was loaded ahead, by this process: windows that end at or below it may not be there."""

    def open(self, generation: Generation) -> Store:
        """Its store, as it was left, or empty."""
        return Store(self._root / str(generation), self._job, generation, segment=self._segment)

    def bulk(
        self,
        cluster: Cluster,
        store: Store,
        topic: str,
        stopping: Callable[[], bool],
        workers: int | None = None,
    ) -> Bulk:
        """Who loads much of a changelog into one of them. `workers`: None for as many as there are."""
        return Bulk(
            cluster,
            self._job,
            topic,
            store,
            Unobserved(),
            workers or self._workers,
            stopping,
            least_records=self._least_records,
            native=self._native,
        )

    def ahead(self, generation: Generation, floor_ms: int) -> None:
        """Its store is loaded before it is needed, with windows that end above `floor_ms`."""
        self._ahead_above_ms[generation] = max(floor_ms, self._ahead_above_ms.get(generation, floor_ms))

    def goes_on(self, generation: Generation, floor_ms: int) -> bool:
        """Can what was loaded ahead be gone on with, where windows that end above `floor_ms` are wanted?"""
        return self._ahead_above_ms.get(generation, floor_ms + 1) <= floor_ms

    def forget(self, generation: Generation) -> None:
        """Delete its store, which must be closed."""
        self._ahead_above_ms.pop(generation, None)
        shutil.rmtree(self._root / str(generation), ignore_errors=True)

    def tidy(self, generation: Generation) -> None:
        """No hand-over is under way: delete what only that needs. `generation`: the one that is published."""
        kept = {self._root / str(generation)} if self.lasting else set()
        self._ahead_above_ms.clear()
        for folder in self._root.iterdir() if self._root.is_dir() else ():
            if folder.is_dir() and folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def at(self, entry: Entry, or_later: bool = False) -> Store | None:
        """The store of its generation if it is at this milestone; None where it is not.

        `or_later`: a later one of the generation does, too.
        """
        store = self.open(entry.milestone.generation)
        applied = store.applied if not store.applying else None
        if applied and (applied.record == entry.record or (or_later and applied.offset > entry.offset)):
            return store
        store.close()
        return None


class Reading:
    """Brings a store to a milestone from the changelog of its generation."""

    def __init__(
        self, cluster: Cluster, job: Job, states: States, now_ms: Callable[[], int], stopping: Callable[[], bool]
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._states = states
        self._now_ms = now_ms
        self._stopping = stopping

    def state(self, entry: Entry, floor_ms: int, or_later: bool = False) -> Store:
        """The rows of windows that end above `floor_ms`, as the milestone left them; to be closed by the caller.

        Raises DivergenceError where the changelog does not hold them or proves something else; Overtaken where
        compaction may have taken some; Stopped at the process's end.
        """
        found = self._states.at(entry, or_later)
        if found is not None:
            return found
        generation = entry.milestone.generation
        if not self._states.goes_on(generation, floor_ms):
            self._states.forget(generation)
        store = self._states.open(generation)
        try:
            self._read(store, entry, floor_ms)
        except BaseException:
            store.close()
            raise
        return store

    def _read(self, store: Store, entry: Entry, floor_ms: int) -> None:
        topic = topics.changelog(self._job.name, entry.milestone.generation)
        ranges = Ranges(self._cluster, topic, self._stopping)
        bulk = self._states.bulk(self._cluster, store, topic, self._stopping)
        applier = Applier(store, self._job, ranges, self._now_ms, floor_ms=lambda _: floor_ms, bulk=bulk)
        try:
            try:
                applier.apply(Jump(entry))
            except Overtaken as overtaken:
                if overtaken.looked:
                    raise
                applier.apply(Jump(entry))  # it got too old while it was read: so look above the cut now
        finally:
            ranges.close()
