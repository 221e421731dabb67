"""The rows that a hand-over publishes: the difference of two states, each in a store of the publisher."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import islice

from cutwater.adapters.avro.codec import HEADER_BYTES, Codec
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, is_confluent
from cutwater.core.generations.job_change import compare_jobs
from cutwater.core.generations.seed_change import same_row
from cutwater.core.job.job import TOMBSTONE, Job
from cutwater.core.output.handover import RowKinds
from cutwater.core.output.position import Published
from cutwater.core.output.state_diff import Same, diff_states
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Jump, Step
from cutwater.publisher.sources.stored_rows import OutputRow, closed_pieces, pieces
from cutwater.views.changelog.row_batch import Piece
from cutwater.views.store import key_layout
from cutwater.views.store.store import Store

Within = tuple[int, int]
"""The bounds (after, up to] of the ends of the compared windows, in ms."""


class DifferenceSource:
    """The source of one hand-over's rows; a `publisher.sources.changed_rows.Source`."""

    reads_ahead = True
    """The stores do not change."""

    def __init__(
        self,
        job: Job,
        old: tuple[Store, Within] | None,
        new: tuple[Store, Within],
        wording: RowKinds,
        begun: int = 0,
        repeat: bool = False,
    ) -> None:
        """`old`: the published state; None if it is lost. `begun`: the number of rows of this difference that are
        published already. `repeat`: publish equal rows, too."""
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
        old = closed_pieces(self._old[0], self._old[0].job, *self._old[1]) if self._old else iter(())
        new = closed_pieces(self._new[0], self._job, *self._new[1])
        for storage, value in diff_states(old, new, self._same):
            kind = self._wording.kind(key_layout.end_of(storage), gone=value is None)
            if kind is not None:
                yield OutputRow(kind, storage, value or b"")


def same_row_of(before: Job, after: Job) -> Same:
    """Return whether a row of one job's state is the same as one of another's.

    A generation may have other measures than its parent. Then a row is the same if those of both are, and the
    others are as of a window without events: readers know the row already, and miss nothing.
    """
    if before.state_schema == after.state_schema:
        return _same_row
    old, new = (Codec(one.state_schema) for one in (before, after))
    says_the_same = same_row(compare_jobs(before, after).seeds, after.measures)

    def same(one: bytes, two: bytes) -> bool:
        return says_the_same(old.decode_body(_body(one), 0), new.decode_body(_body(two), 0))

    return same


def _same_row(one: bytes, two: bytes) -> bool:
    # Equal except for the framing, which may change between generations.
    return one == two or _body(one) == _body(two)


def _body(value: bytes) -> bytes:
    return value[CONFLUENT_HEADER_BYTES if is_confluent(value) else HEADER_BYTES :]
