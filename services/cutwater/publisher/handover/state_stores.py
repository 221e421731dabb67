"""The publisher's own stores, one per generation: those of mode `final`, or what a hand-over compares."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.topics import MIN_COMPACTION_LAG_MS
from cutwater.core.state.backlog import MARGIN_MS, Entry, Jump
from cutwater.views.bulk.loader import BULK_RECORDS, Bulk, Unobserved
from cutwater.views.changelog.proof import Overtaken
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.follow.applier import Applier
from cutwater.views.store.folders import ahead_of, drop_ahead, take_ahead
from cutwater.views.store.store import Store

FREE_SHARE = 0.1
"""Of the disk, which is left free by what is loaded ahead: whoever publishes needs room, too."""
AHEAD_MS = MIN_COMPACTION_LAG_MS - MARGIN_MS
"""So old, it may hold a row whose later value compaction has taken, with the tombstone behind that."""


def compared_above_ms(to: Milestone, whole: Milestone) -> int:
    """Windows that end at or below it are not compared: the output has said all of them that it ever will.

    `to`: where a hand-over leads; `whole`: what is published.
    """
    # In a rewind the target's horizon is the lower one. Else windows that only its horizon has passed may have
    # changed, or closed, since what is published.
    return min(to.horizon_ms, whole.horizon_ms, whole.watermark_ms)


class _Ahead(NamedTuple):
    floor_ms: int
    """Windows that end at or below it may not be there."""
    at_ms: int


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
        self._ahead: dict[Generation, _Ahead] = {}
        """What was loaded, by this process. It lies apart: a store of its generation may be there, and be kept."""

    def _folder(self, generation: Generation) -> Path:
        return self._root / str(generation)

    def open(self, generation: Generation) -> Store:
        """Its store, as it was left, or empty."""
        return Store(self._folder(generation), self._job, generation, segment=self._segment)

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

    def open_ahead(self, generation: Generation) -> Store:
        """A store for what is loaded before it is needed."""
        folder = ahead_of(self._folder(generation))
        return Store(folder, self._job, generation, segment=self._segment)

    def roomy(self) -> bool:
        """Is there room to load something ahead?"""
        usage = shutil.disk_usage(next(one for one in (self._root, *self._root.parents) if one.is_dir()))
        return usage.free >= FREE_SHARE * usage.total

    def loading_ahead(self, generation: Generation, floor_ms: int, at_ms: int) -> None:
        """From now on windows that end at or below `floor_ms` may not be there, also where the load is broken off.

        `at_ms`: a moment before which nothing was written that the load does not read.
        """
        before = self._ahead.get(generation, _Ahead(floor_ms, at_ms))
        self._ahead[generation] = before._replace(floor_ms=max(floor_ms, before.floor_ms))

    def loaded_ahead(self, generation: Generation, at_ms: int) -> None:
        """The load is whole."""
        self._ahead[generation] = self._ahead[generation]._replace(at_ms=at_ms)

    def misses_ahead(self, generation: Generation, floor_ms: int) -> bool:
        """Was it loaded without windows that end above `floor_ms`?"""
        found = self._ahead.get(generation)
        return found is not None and found.floor_ms > floor_ms

    def stale_ahead(self, generation: Generation, now_ms: int) -> bool:
        """Is it time to load again, however little that is?"""
        found = self._ahead.get(generation)
        return found is not None and now_ms - found.at_ms > AHEAD_MS // 2

    def take_ahead(self, generation: Generation, floor_ms: int, now_ms: int) -> None:
        """Begin a store with what was loaded ahead, where that has all that windows above `floor_ms` need."""
        found = self._ahead.pop(generation, None)
        if found is not None and found.floor_ms <= floor_ms and now_ms - found.at_ms < AHEAD_MS:
            take_ahead(self._folder(generation))
        with suppress(OSError):  # it takes room, until `tidy`
            self.forget_ahead(generation)

    def forget_ahead(self, generation: Generation) -> None:
        """Delete what was loaded ahead, which must be closed. Raises OSError."""
        self._ahead.pop(generation, None)
        drop_ahead(self._folder(generation))

    def forget_ahead_of_others(self, kept: Collection[Generation]) -> None:
        """Delete what was loaded ahead of any other one."""
        for generation in self._ahead.keys() - kept:
            with suppress(OSError):
                self.forget_ahead(generation)

    def forget(self, generation: Generation) -> None:
        """Delete its store, which must be closed."""
        shutil.rmtree(self._folder(generation), ignore_errors=True)

    def tidy(self, generation: Generation) -> None:
        """No hand-over is under way: delete what only that needs. `generation`: the one that is published."""
        kept = {self._folder(generation)} if self.lasting else set()
        self._ahead.clear()
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
        self,
        cluster: Cluster,
        job: Job,
        states: States,
        log: Any,
        now_ms: Callable[[], int],
        stopping: Callable[[], bool],
    ) -> None:
        self._log = log
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
        self._states.forget(generation)
        self._states.take_ahead(generation, floor_ms, self._now_ms())
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
                read = applier.apply(Jump(entry))
            except Overtaken as overtaken:
                if overtaken.looked:
                    raise
                read = applier.apply(Jump(entry))  # it got too old while it was read: so look above the cut now
        finally:
            ranges.close()
        seconds = round(read.seconds, 3)
        self._log.info("state read", token=str(entry.milestone.token), records=read.records, seconds=seconds)
