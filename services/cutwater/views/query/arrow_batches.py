"""Rows by column as record batches."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from cutwater.adapters.columnar.arrow import Batch, Schema, batch_of
from cutwater.core.job.job import Job
from cutwater.views.query.presenter import Presenter
from cutwater.views.query.row_blocks import RowColumns


def batches(job: Job, schema: Schema, pieces: Iterable[RowColumns]) -> Generator[Batch]:
    """Yield each piece with the values of its measures. Raises UsageError if stored bytes are damaged."""
    presenter = Presenter(job)
    for piece in pieces:
        yield batch_of(schema, [piece.keys, piece.starts, piece.ends, *presenter.columns(piece.values)])
