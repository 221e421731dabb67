"""Selects a milestone's rows for the output: every changed row, or those whose windows it closed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Protocol

from cutwater.core.job.job import CORRECTION, FINAL, UPDATE, Job
from cutwater.core.output.position import Published
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import ROOT_PARENT
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Jump, Step
from cutwater.publisher.sources.stored_rows import OutputRow, closed_windows, key_of_row, pieces, windows_in
from cutwater.views.changelog.milestone_rows import PART_BYTES, PART_ROWS, Updates
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.changelog.row_batch import Piece, join_pieces, pieces_of
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
        self._changed = Updates(job, ranges, now_ms)
        self._keys = KeyReader()
        self._closed_ms = _EVER
        self._applier = Applier(store, job, ranges, now_ms, floor_ms=self._floor_ms)

    def pieces(self, plan: Step | Jump, position: Published, whole: Milestone | None) -> Generator[Piece]:
        milestone = plan.to.milestone
        # Windows closed since then are kept until they are published, even below the horizon.
        self._closed_ms = whole.watermark_ms if whole else _EVER
        bring_store_to(self._store, self._applier, plan)
        # Windows do not change once a milestone has closed them, but by amendments, which follow in an order of
        # their own: the published rows are first again.
        rows = chain(self._closed_windows(position, milestone), self._amended_windows(plan, whole))
        yield from pieces(islice(rows, sum(position.rows), None))

    def _closed_windows(self, position: Published, milestone: Milestone) -> Iterator[OutputRow]:
        after_ms = self._closed_ms
        if self._job.overlap_ms and after_ms == _EVER and milestone.generation.parent != ROOT_PARENT:
            # The generation began with its parent's state: of windows at the horizon some panes are not there.
            after_ms = self._job.shown_above_ms(milestone.horizon_ms)
        for storage, value in closed_windows(self._store, self._job, after_ms, milestone.watermark_ms):
            kind = CORRECTION if key_layout.end_of(storage) <= position.closed_ms else FINAL
            yield OutputRow(kind, storage, value)

    def _amended_windows(self, plan: Step | Jump, whole: Milestone | None) -> list[OutputRow]:
        """Return the changed rows of windows that were closed before, which late events have amended."""
        milestone = plan.to.milestone
        if whole is None or not self._may_amend(plan, whole):
            return []
        # All panes of a window that was closed before had closed, too.
        found: dict[bytes, bytes] = {}
        for key, value in self._changed.rows(plan, whole.changelog_cut):
            row = self._keys.window(key)
            if value and milestone.horizon_ms < row.end_ms <= whole.watermark_ms:
                found[key_layout.storage_key(row, self._store.segment_ms)] = value
        if not self._job.overlap_ms:
            return [OutputRow(CORRECTION, storage, found[storage]) for storage in sorted(found)]
        above_ms = self._job.shown_above_ms(milestone.horizon_ms)
        return [
            OutputRow(CORRECTION, storage, value)
            for storage, value in windows_in(self._store, self._job).touched_by(found)
            if above_ms < key_layout.end_of(storage) <= whole.watermark_ms
        ]

    def _may_amend(self, plan: Step | Jump, whole: Milestone) -> bool:
        """Return whether closed windows may have changed. The milestones show it, too: a driver may have read a
        newer job file than this process."""
        milestone = plan.to.milestone
        if isinstance(plan, Step):
            return milestone.amended > 0
        told = any(one.floor_ms < one.watermark_ms for one in (whole, milestone))
        return told or self._job.amend_for_ms is not None

    def close(self) -> None:
        self._store.close()

    def _floor_ms(self, milestone: Milestone) -> int:
        return min(milestone.horizon_ms, self._closed_ms - self._job.overlap_ms)


class ChangedWindows:
    """Every window that a milestone's changed panes are part of, merged in a store at that milestone.

    The changelog is read in chunks of one partition, and the windows of a chunk follow each other. A window whose
    panes are in several chunks comes several times, each time whole.
    """

    kind = UPDATE
    reads_ahead = False
    """The store must not be ahead of the output."""

    def __init__(
        self,
        job: Job,
        store: Store,
        ranges: Ranges,
        now_ms: Callable[[], int],
        part_rows: int = PART_ROWS,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._job = job
        self._store = store
        self._part_rows = part_rows
        self._keys = KeyReader()
        self._changed = Updates(job, ranges, now_ms, part_rows, part_bytes)
        self._floor = _EVER
        self._applier = Applier(store, job, ranges, now_ms, floor_ms=self._floor_ms)

    def pieces(self, plan: Step | Jump, position: Published, whole: Milestone | None) -> Generator[Piece]:
        # Panes that a step changed may be of windows that its own horizon has passed. Of a jump's changelog, what
        # any horizon on the way has passed may be gone.
        self._floor = whole.horizon_ms if whole and isinstance(plan, Step) else plan.to.milestone.horizon_ms
        bring_store_to(self._store, self._applier, plan)
        since = whole.changelog_cut if whole else Cut()
        changed = self._changed.pieces(plan, since, position.progress if position.parts else None)
        for chunk in chunks(changed, self._part_rows):
            yield from self._windows(chunk)

    def close(self) -> None:
        self._store.close()

    def _floor_ms(self, milestone: Milestone) -> int:
        return min(milestone.horizon_ms, self._floor)

    def _windows(self, chunk: Piece) -> Iterator[Piece]:
        """Yield the windows. The progress passes the chunk with its last window: not before, since any may be."""
        panes = (self._keys.window(key) for key in chunk.keys)
        touched = {key_layout.storage_key(pane, self._store.segment_ms) for pane in panes}
        above_ms, before = self._job.shown_above_ms(self._floor), chunk.offsets[0] - 1
        rows = (
            (chunk.partition, before, key_of_row(storage), value)
            for storage, value in windows_in(self._store, self._job).touched_by(touched)
            if key_layout.end_of(storage) > above_ms
        )
        last: Piece | None = None
        for piece in pieces_of(rows):
            if last is not None:
                yield last
            last = piece
        if last is not None:
            yield replace(last, offsets=[*last.offsets[:-1], chunk.offsets[-1]])


def chunks(pieces: Iterable[Piece], rows_max: int) -> Iterator[Piece]:
    """Join the pieces of each partition, up to about `rows_max` rows of all partitions together."""
    held: dict[int, list[Piece]] = {}
    rows = 0
    for piece in pieces:
        if len(piece):
            held.setdefault(piece.partition, []).append(piece)
            rows += len(piece)
        if rows >= rows_max:
            yield from map(join_pieces, held.values())
            held, rows = {}, 0
    yield from map(join_pieces, held.values())


def has_store(job: Job) -> bool:
    """Return whether the published rows are read from a store: finals, and windows that are merged."""
    return job.output.mode == "final" or job.overlap_ms > 0


def store_segment_ms(job: Job) -> int | None:
    """Return the length of a segment of the publisher's store; None for the usual one.

    With finals one segment per window end: the windows that a milestone closes are adjacent. The layout of a
    lasting store does not depend on the retention, as the store is compared with that of another generation.
    """
    if job.output.mode == "final":
        return job.window.slide_ms
    return job.window.size_ms if has_store(job) else None


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
    if job.output.mode == "final":
        return Finals(job, open_store(), ranges, now_ms)
    return ChangedWindows(job, open_store(), ranges, now_ms, part_rows, part_bytes)


def bring_store_to(store: Store, applier: Applier, plan: Step | Jump) -> None:
    """Bring a publisher's store to the plan's milestone.

    The store may be ahead, after a crash between store and output, or behind, if its folder was lost.
    """
    milestone, applied = plan.to.milestone, store.applied
    sequence = applied.milestone.sequence if applied and not store.applying else 0
    if sequence < milestone.sequence:
        steps = isinstance(plan, Step) and sequence == milestone.sequence - 1
        applier.apply(plan if steps else Jump(plan.to))
