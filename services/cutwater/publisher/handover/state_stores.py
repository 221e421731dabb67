"""The publisher's stores, one per generation: for mode `final`, or for the comparison at a hand-over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
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
from cutwater.core.state.bulk_load import BULK_RECORDS
from cutwater.publisher.handover.ahead_comparison import AheadComparison
from cutwater.publisher.handover.row_sameness import same_row_of
from cutwater.publisher.handover.store_folders import StoreFolders
from cutwater.views.bulk.loader import BulkLoader, Unobserved
from cutwater.views.changelog.proof import Overtaken
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.follow.applier import Applier
from cutwater.views.store.store import Store

AHEAD_MS = MIN_COMPACTION_LAG_MS - MARGIN_MS
"""A preloaded store may be at most this old: later, compaction may have removed newer values and tombstones."""


def compared_above_ms(overlap_ms: int, to: Milestone, whole: Milestone) -> int:
    """Return the window end up to which windows are not compared: all their rows are published. `to`: the
    milestone of the hand-over; `whole`: the newest published milestone. `overlap_ms`: of the windows (`Job`); the
    shorter one of two jobs."""
    # In a rewind the target's horizon is the lower one. Else windows that only the target's horizon has passed may
    # have changed or closed after `whole`.
    horizon_ms = min(to.horizon_ms, whole.horizon_ms)
    return min(horizon_ms + overlap_ms if horizon_ms else 0, whole.watermark_ms)


JobOf = Callable[[Generation, str], Job]
"""Returns the job of a generation's rows, by a milestone's `definition`: an id alone takes a read of a topic."""


class _Ahead(NamedTuple):
    floor_ms: int
    """Windows that end at or below it may be missing."""
    at_ms: int


class StateStores:
    """The stores, in a folder that belongs to this process."""

    def __init__(
        self,
        root: Path,
        job: Job,
        segment: int | None = None,
        lasting: bool = False,
        workers: int = 1,
        native: bool = False,
        least_records: int = BULK_RECORDS,
        folders: StoreFolders | None = None,
        job_of: JobOf | None = None,
    ) -> None:
        """`segment`: the length of a time segment in ms; None for the usual one.

        `lasting`: the published generation's store is kept; else stores exist only during a hand-over.
        `workers`, `native`, `least_records`: options of `BulkLoader`. `folders`: those below `root` by default.
        `job_of`: by default `job` is that of every generation.
        """
        self.lasting = lasting
        self._folders = folders or StoreFolders(root, segment)
        self._job, self._job_of = job, job_of or (lambda _generation, _definition: job)
        self._workers, self._native, self._least_records = workers, native, least_records
        self._comparison: AheadComparison | None = None
        self._ahead: dict[Generation, _Ahead] = {}
        """The preloaded stores. Each has its own folder beside its generation's store, which may be kept."""

    def open(self, generation: Generation) -> Store:
        """Open the store of a generation of this process's job. It may be empty."""
        return self._noting(self._folders.open(generation, self._job), generation)

    def open_of(self, milestone: Milestone) -> Store:
        """Open the store of a milestone's generation. It may be empty."""
        job = self._job_of(milestone.generation, milestone.definition)
        return self._noting(self._folders.open(milestone.generation, job), milestone.generation)

    def bulk(
        self,
        cluster: Cluster,
        store: Store,
        topic: str,
        stopping: Callable[[], bool],
        workers: int | None = None,
        niceness: int = 0,
    ) -> BulkLoader:
        """Return a bulk loader into one of the stores. `workers`: the number of processes; None: the default.
        `niceness`: added to theirs."""
        return BulkLoader(
            cluster,
            store.job,
            topic,
            store,
            Unobserved(),
            workers or self._workers,
            stopping,
            least_records=self._least_records,
            native=self._native,
            niceness=niceness,
        )

    def open_preload(self, milestone: Milestone) -> Store:
        """Open a store to preload rows of a milestone's generation into."""
        job = self._job_of(milestone.generation, milestone.definition)
        return self._noting(self._folders.open_preload(milestone.generation, job), milestone.generation)

    def _noting(self, store: Store, generation: Generation) -> Store:
        if self._comparison is not None and generation in self._comparison.of:
            store.touched = self._comparison.suspects
        return store

    def compare_ahead(self, old: Store, new: Store, floor_ms: int, stopping: Callable[[], bool], log: Any) -> None:
        """Compare two preloaded stores, which nobody else uses, above a window end: for the first time, or what
        may differ since. Raises Stopped, MachineError."""
        of = old.generation, new.generation
        if self._comparison is None or self._comparison.of != of:
            self._comparison = AheadComparison(*of, floor_ms, same_row_of(old.job, new.job), log)
        self._comparison.refresh(old, new, stopping)

    def suspects(self, old: Store, new: Store, floor_ms: int) -> Sequence[bytes] | None:
        """Return the storage keys of the rows above a window end that may differ, in order; None: compare all."""
        if self._comparison is None:
            return None
        return self._comparison.suspects_of(old.generation, new.generation, floor_ms)

    def _forget_comparison(self, generation: Generation) -> None:
        if self._comparison is not None and generation in self._comparison.of:
            self._comparison = None

    def roomy(self) -> bool:
        """Return True if the disk has room to preload."""
        return self._folders.is_roomy()

    def mark_preload_started(self, generation: Generation, floor_ms: int, at_ms: int) -> None:
        """Note that windows which end at or below `floor_ms` may be missing, even if the load is interrupted.
        `at_ms`: the load reads everything that was written before this time."""
        before = self._ahead.get(generation, _Ahead(floor_ms, at_ms))
        self._ahead[generation] = before._replace(floor_ms=max(floor_ms, before.floor_ms))

    def mark_preload_complete(self, generation: Generation, at_ms: int) -> None:
        self._ahead[generation] = self._ahead[generation]._replace(at_ms=at_ms)

    def has_preload_gap(self, generation: Generation, floor_ms: int) -> bool:
        """Return True if the preloaded store lacks windows that end above `floor_ms`."""
        found = self._ahead.get(generation)
        return found is not None and found.floor_ms > floor_ms

    def is_preload_stale(self, generation: Generation, now_ms: int) -> bool:
        """Return True if the preloaded store must be refreshed even for a few records."""
        found = self._ahead.get(generation)
        return found is not None and now_ms - found.at_ms > AHEAD_MS // 2

    def adopt_preload(self, generation: Generation, floor_ms: int, now_ms: int) -> None:
        """Start a store with the preloaded one, if that is recent and has all windows above `floor_ms`."""
        found = self._ahead.pop(generation, None)
        usable = found is not None and found.floor_ms <= floor_ms and now_ms - found.at_ms < AHEAD_MS
        if not (usable and self._folders.adopt_preload(generation)):
            self._forget_comparison(generation)
        with suppress(OSError):  # `tidy` retries
            self._folders.remove_preload(generation)

    def drop_preload(self, generation: Generation) -> None:
        """Delete the preloaded store, which must be closed. Raises OSError."""
        self._ahead.pop(generation, None)
        self._forget_comparison(generation)
        self._folders.remove_preload(generation)

    def drop_other_preloads(self, kept: Collection[Generation]) -> None:
        """Delete the preloaded stores of all other generations."""
        for generation in self._ahead.keys() - kept:
            with suppress(OSError):
                self.drop_preload(generation)

    def forget(self, generation: Generation) -> None:
        """Delete the generation's store, which must be closed."""
        if generation not in self._ahead:  # otherwise the preloaded store is the compared one
            self._forget_comparison(generation)
        self._folders.remove(generation)

    def tidy(self, generation: Generation) -> None:
        """Delete all stores that only a hand-over needs. `generation`: the one that is published now."""
        self._ahead.clear()
        self._comparison = None
        self._folders.remove_others(generation if self.lasting else None)

    def open_at(self, entry: Entry, or_later: bool = False) -> Store | None:
        """Open the generation's store if it is at this milestone; else return None. `or_later`: also accept a
        later milestone of the generation."""
        if not self._folders.exists(entry.milestone.generation):
            return None  # creating a store takes a tenth of a second, in which readers wait
        store = self.open_of(entry.milestone)
        applied = store.applied if not store.applying else None
        if applied and (applied.record == entry.record or (or_later and applied.offset > entry.offset)):
            return store
        store.close()
        return None


class StateReader:
    """Advances a store to a milestone, from its generation's changelog."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        states: StateStores,
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
        """Return the milestone's rows of windows that end above `floor_ms`. The caller closes the store.

        Raise DivergenceError if the changelog does not match the milestone; Overtaken if compaction may have
        removed rows; Stopped if the process stops.
        """
        found = self._states.open_at(entry, or_later)
        if found is not None:
            return found
        generation = entry.milestone.generation
        self._states.forget(generation)
        self._states.adopt_preload(generation, floor_ms, self._now_ms())
        store = self._states.open_of(entry.milestone)
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
        applier = Applier(store, store.job, ranges, self._now_ms, floor_ms=lambda _: floor_ms, bulk=bulk)
        try:
            try:
                read = applier.apply(Jump(entry))
            except Overtaken as overtaken:
                if overtaken.looked:
                    raise
                read = applier.apply(Jump(entry))  # it got too old during the read: this time look above the cut
        finally:
            ranges.close()
        seconds = round(read.seconds, 3)
        self._log.info("state read", token=str(entry.milestone.token), records=read.records, seconds=seconds)
