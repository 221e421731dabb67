"""Stored rows as record batches of bounded size."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from cutwater.adapters.columnar.arrow import Batch, Schema, batch_of
from cutwater.core.job.job import Job
from cutwater.views.query.presenter import Presenter
from cutwater.views.store.key_layout import Window

BATCH_ROWS = 10_000
BATCH_BYTES = 4 << 20
"""Bytes of stored values in a batch, exceeded by at most one value: batches of large sketches are short."""


def batches(job: Job, schema: Schema, rows: Iterable[tuple[Window, bytes]]) -> Generator[Batch]:
    """Yield all rows with the values of their measures. Raises UsageError if stored bytes are damaged."""
    presenter = Presenter(job)

    def made() -> Batch:
        return batch_of(schema, [*zip(*windows, strict=True), *presenter.columns(values)])

    windows: list[Window] = []
    values: list[bytes] = []
    size = 0
    for window, value in rows:
        windows.append(window)
        values.append(value)
        size += len(value)
        if len(values) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield made()
            windows, values, size = [], [], 0
    if values:
        yield made()
