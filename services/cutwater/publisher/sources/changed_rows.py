"""Selects a milestone's rows for the output: every changed row, or those whose windows it closed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from typing import Protocol

from cutwater.core.job.job import CORRECTION, FINAL, UPDATE, Job
from cutwater.core.output.position import Published
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Jump, Step
from cutwater.publisher.sources.stored_rows import OutputRow, closed, pieces, windows_in
from cutwater.views.changelog.milestone_rows import PART_BYTES, PART_ROWS, Updates
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.changelog.row_batch import Piece
from cutwater.views.follow.applier import Applier
from cutwater.views.store import key_layout
from cutwater.views.store.store import Store

_EVER = -(1 << 62)


class Source(Protocol):
    """The source of a milestone's rows."""

    kind: str
    """The kind of rows whose piece has none."""
    reads_ahead: bool
    """True if a milestone's rows may be read while the previous one is still written."""

    def pieces(self, plan: Step | Jump, position: Published, whole: Milestone | None) -> Generator[Piece]:
        """Yield the rows that are not published yet, in an order that a restart repeats.

        Raise DivergenceError if the changelog does not match the milestone; Overtaken, possibly after some rows,
        if compaction has removed values: a later milestone continues.
        """

    def close(self) -> None:
        """Release the source's resources."""


class Changed:
    """Every changed row of a milestone, or of several that are published as one."""

    kind = UPDATE
    reads_ahead = True

    def __init__(self, updates: Updates) -> None:
        self._updates = updates

    def pieces(self, plan: Step | Jump, position: Published, whole: Milestone | None) -> Generator[Piece]:
        since = whole.changelog_cut if whole else Cut()
        return self._updates.pieces(plan, since, position.progress if position.parts else None)

    def close(self) -> None:
        """Do nothing."""


class Finals:
    """The rows of windows that the watermark has closed since the previously published milestone."""

    kind = FINAL
    reads_ahead = False
    """The store drops windows below the horizon; a crash would lose finals of the previous milestone."""

    def __init__(self, job: Job, store: Store, ranges: Ranges, now_ms: Callable[[], int]) -> None:
        self._job = job
        self._store = store
        self._changed = Updates(job, ranges, now_ms) if job.amend_for_ms is not None else None
        self._closed_ms = _EVER
        self._applier = Applier(store, job, ranges, now_ms, floor_ms=self._floor_ms)

    def pieces(self, plan: Step | Jump, position: Published, whole: Milestone | None) -> Generator[Piece]:
        milestone = plan.to.milestone
        # Windows closed since then are kept until they are published, even below the horizon.
        self._closed_ms = whole.watermark_ms if whole else _EVER
        bring_store_to(self._store, self._applier, plan)
        # Windows do not change once a milestone has closed them, but by amendments, which follow in an order of
        # their own: the published rows are first again.
        rows = chain(self._closed(position, milestone), self._amended(plan, whole))
        yield from pieces(islice(rows, sum(position.rows), None))

    def _closed(self, position: Published, milestone: Milestone) -> Iterator[OutputRow]:
        for storage, value in closed(self._store, self._job, self._closed_ms, milestone.watermark_ms):
            kind = CORRECTION if key_layout.end_of(storage) <= position.closed_ms else FINAL
            yield OutputRow(kind, storage, value)

    def _amended(self, plan: Step | Jump, whole: Milestone | None) -> list[OutputRow]:
        """Return the changed rows of windows that were closed before, which late events have amended."""
        milestone = plan.to.milestone
        if self._changed is None or whole is None or (isinstance(plan, Step) and not milestone.amended):
            return []
        above_ms = self._job.shown_above_ms(milestone.horizon_ms)
        changed = changed_rows(self._job, self._store, self._changed.rows(plan, whole.changelog_cut))
        return [
            OutputRow(CORRECTION, storage, value)
            for storage, value in changed
            if above_ms < key_layout.end_of(storage) <= whole.watermark_ms
        ]

    def close(self) -> None:
        self._store.close()

    def _floor_ms(self, milestone: Milestone) -> int:
        return min(milestone.horizon_ms, self._closed_ms - self._job.overlap_ms)


class ChangedWindows:
    """Every window of a milestone's changed panes, merged in a store."""

    kind = UPDATE
    reads_ahead = False
    """The store must not be ahead of the output."""

    def __init__(self, job: Job, store: Store, ranges: Ranges, now_ms: Callable[[], int]) -> None:
        self._job = job
        self._store = store
        self._changed = Updates(job, ranges, now_ms)
        self._before_ms: int | None = None
        self._applier = Applier(store, job, ranges, now_ms, floor_ms=self._floor_ms)

    def pieces(self, plan: Step | Jump, position: Published, whole: Milestone | None) -> Generator[Piece]:
        # Panes that changed may be of windows that this milestone's own horizon has passed.
        self._before_ms = whole.horizon_ms if whole else None
        bring_store_to(self._store, self._applier, plan)
        above_ms = self._job.shown_above_ms(self._floor_ms(plan.to.milestone))
        rows = self._changed.rows(plan, whole.changelog_cut if whole else Cut())
        changed = (
            OutputRow(UPDATE, storage, value)
            for storage, value in changed_rows(self._job, self._store, rows)
            if key_layout.end_of(storage) > above_ms
        )
        yield from pieces(islice(changed, sum(position.rows), None))

    def close(self) -> None:
        self._store.close()

    def _floor_ms(self, milestone: Milestone) -> int:
        return milestone.horizon_ms if self._before_ms is None else min(milestone.horizon_ms, self._before_ms)


def has_store(job: Job) -> bool:
    """Return whether the published rows are read from a store: finals, and windows that are merged."""
    return job.output.mode == "final" or job.overlap_ms > 0


def source_of(
    job: Job,
    open_store: Callable[[], Store],
    ranges: Ranges,
    now_ms: Callable[[], int],
    part_rows: int = PART_ROWS,
    part_bytes: int = PART_BYTES,
) -> Source:
    """Return the source of the job's output. `open_store`: called if the source has one; it closes the store."""
    if not has_store(job):
        return Changed(Updates(job, ranges, now_ms, part_rows, part_bytes))
    return (Finals if job.output.mode == "final" else ChangedWindows)(job, open_store(), ranges, now_ms)


def bring_store_to(store: Store, applier: Applier, plan: Step | Jump) -> None:
    """Bring a publisher's store to the plan's milestone.

    The store may be ahead, after a crash between store and output, or behind, if its folder was lost.
    """
    milestone, applied = plan.to.milestone, store.applied
    sequence = applied.milestone.sequence if applied and not store.applying else 0
    if sequence < milestone.sequence:
        steps = isinstance(plan, Step) and sequence == milestone.sequence - 1
        applier.apply(plan if steps else Jump(plan.to))


def changed_rows(job: Job, store: Store, rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield storage keys and values of the windows of changed rows, in an order that a restart repeats.

    `rows`: keys and values of the changelog, empty for tombstones. `store`: at the milestone of the last row.
    """
    keys, found = KeyReader(), dict[bytes, bytes]()
    for key, value in rows:
        if value:
            found[key_layout.storage_key(keys.window(key), store.segment_ms)] = value
    if job.overlap_ms:
        return windows_in(store, job).windows_of(found)
    return ((storage, found[storage]) for storage in sorted(found))
