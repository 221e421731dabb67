"""The rows that a hand-over publishes: the difference of two states, each in a store of the publisher."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from cutwater.core.job.job import TOMBSTONE, Job
from cutwater.core.output.handover import RowKinds
from cutwater.core.output.position import Published
from cutwater.core.output.state_diff import Rows, diff_states
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Jump, Step
from cutwater.publisher.handover.row_sameness import same_row_of
from cutwater.publisher.sources.stored_rows import OutputRow, closed_pieces, named_pieces, pieces
from cutwater.views.changelog.row_batch import Piece
from cutwater.views.store import key_layout
from cutwater.views.store.store import Store

Within = tuple[int, int]
"""The bounds (after, up to] of the ends of the compared windows, in ms."""
Side = tuple[Store, Within]


class DifferenceSource:
    """The source of one hand-over's rows; a `publisher.sources.changed_rows.Source`."""

    reads_ahead = True
    """The stores do not change."""

    def __init__(
        self,
        job: Job,
        old: Side | None,
        new: Side,
        wording: RowKinds,
        begun: int = 0,
        repeat: bool = False,
        suspects: Sequence[bytes] | None = None,
    ) -> None:
        """`old`: the published state; None if it is lost. `begun`: the number of rows of this difference that are
        published already. `repeat`: publish equal rows, too. `suspects`: the storage keys of the rows that may
        differ, in order; None: all rows are compared."""
        self._suspects = suspects
        self.kind = wording.plain
        self._job, self._old, self._new = job, old, new
        self._wording = wording
        self._begun = begun
        self._same = None if repeat else same_row_of(old[0].job if old else job, job)

    def pieces(self, plan: Step | Jump, position: Published, whole: Milestone | None) -> Generator[Piece]:
        before = self._old[0].job if self._old else self._job
        gone_by = None if before.key_meaning == self._job.key_meaning else before
        for piece in pieces(islice(self._rows(), self._begun, None)):
            yield replace(piece, keyed_by=gone_by) if piece.kind == TOMBSTONE else piece

    def close(self) -> None:
        """Do nothing: the caller closes the stores."""

    def _rows(self) -> Iterator[OutputRow]:
        old = self._side(*self._old) if self._old else iter(())
        new = self._side(*self._new)
        for storage, value in diff_states(old, new, self._same):
            kind = self._wording.kind(key_layout.end_of(storage), gone=value is None)
            if kind is not None:
                yield OutputRow(kind, storage, value or b"")

    def _side(self, store: Store, within: Within) -> Iterator[Rows]:
        if self._suspects is not None:
            return named_pieces(store, self._suspects, *within)
        return closed_pieces(store, store.job, *within)
