"""Selects a milestone's rows for the output: every changed row, or those whose windows it closed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import chain, islice
from typing import Protocol

from cutwater.core.job.job import CORRECTION, FINAL, UPDATE, Job
from cutwater.core.output.position import Published
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Jump, Step
from cutwater.publisher.sources.stored_rows import OutputRow, closed, pieces
from cutwater.views.changelog.milestone_rows import Updates
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
        self._store = store
        self._changed = Updates(job, ranges, now_ms) if job.amend_for_ms is not None else None
        self._keys = KeyReader()
        self._closed_ms = _EVER
        self._applier = Applier(store, job, ranges, now_ms, floor_ms=self._floor_ms)

    def pieces(self, plan: Step | Jump, position: Published, whole: Milestone | None) -> Generator[Piece]:
        milestone = plan.to.milestone
        # Windows closed since then are kept until they are published, even below the horizon.
        self._closed_ms = whole.watermark_ms if whole else _EVER
        self._bring_store_to(plan)
        # Windows do not change once a milestone has closed them, but by amendments, which follow in an order of
        # their own: the published rows are first again.
        rows = chain(self._closed(position, milestone), self._amended(plan, whole))
        yield from pieces(islice(rows, sum(position.rows), None))

    def _closed(self, position: Published, milestone: Milestone) -> Iterator[OutputRow]:
        for storage, value in closed(self._store, self._closed_ms, milestone.watermark_ms):
            kind = CORRECTION if key_layout.end_of(storage) <= position.closed_ms else FINAL
            yield OutputRow(kind, storage, value)

    def _amended(self, plan: Step | Jump, whole: Milestone | None) -> list[OutputRow]:
        """Return the changed rows of windows that were closed before, which late events have amended."""
        milestone = plan.to.milestone
        if self._changed is None or whole is None or (isinstance(plan, Step) and not milestone.amended):
            return []
        found: dict[bytes, bytes] = {}
        for key, value in self._changed.rows(plan, whole.changelog_cut):
            window = self._keys.window(key)
            if value and milestone.horizon_ms < window.end_ms <= whole.watermark_ms:
                found[key_layout.storage_key(window, self._store.segment_ms)] = value
        return [OutputRow(CORRECTION, storage, found[storage]) for storage in sorted(found)]

    def close(self) -> None:
        self._store.close()

    def _bring_store_to(self, plan: Step | Jump) -> None:
        # The store may be ahead, after a crash between store and output, or behind, if its folder was lost.
        milestone, applied = plan.to.milestone, self._store.applied
        sequence = applied.milestone.sequence if applied and not self._store.applying else 0
        if sequence < milestone.sequence:
            steps = isinstance(plan, Step) and sequence == milestone.sequence - 1
            self._applier.apply(plan if steps else Jump(plan.to))

    def _floor_ms(self, milestone: Milestone) -> int:
        return min(milestone.horizon_ms, self._closed_ms)
