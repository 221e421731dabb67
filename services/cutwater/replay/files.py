"""A replay as Parquet: the job's rows, the expected ones, and the differences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.adapters.columnar.arrow import Schema, batch_of, pyarrow, schema_of
from cutwater.adapters.columnar.parquet import ParquetFile, parquet_file
from cutwater.core.errors import MachineError
from cutwater.core.job.job import Job
from cutwater.core.output.state_diff import Rows
from cutwater.core.past.replay_reasons import Reason
from cutwater.core.past.state_difference import RowChange
from cutwater.past.diff import Report
from cutwater.replay.comparison import Expectation
from cutwater.views.query.arrow_batches import batches
from cutwater.views.query.presenter import plain
from cutwater.views.query.row_blocks import columns_of, joined

LIVE, REPLAYED, DIFFERENCES = "live.parquet", "replayed.parquet", "differences.parquet"
_BATCH_ROWS = 10_000
_BATCH_BYTES = 16 << 20


class DifferenceFile:
    """Takes differences, and writes a row for each measure with another value."""

    def __init__(self, file: ParquetFile, schema: Schema) -> None:
        self._file, self._schema = file, schema
        self._rows: list[tuple[Any, ...]] = []

    def add(self, change: RowChange, reason: Reason) -> None:
        name = (*change.name, change.kind.value, reason.value)
        self._rows += [(*name, one.name, _text(one.before), _text(one.after)) for one in change.measures]
        self._rows += [(*name, hidden, None, None) for hidden in change.hidden]
        if len(self._rows) >= _BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            columns: Sequence[Any] = [list(column) for column in zip(*self._rows, strict=True)]
            self._file.add(batch_of(self._schema, columns))
            self._rows = []


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(plain(value), ensure_ascii=False, default=str)


@contextmanager
def difference_file(folder: Path) -> Iterator[DifferenceFile]:
    """Write the differences below a folder. Raises MachineError if pyarrow is missing, or it cannot be written."""
    pa = pyarrow()
    time = pa.timestamp("ms", "UTC")
    schema = pa.schema(
        [("key", pa.string()), ("window_start", time), ("window_end", time)]
        + [(name, pa.string()) for name in ("kind", "reason", "measure", "live", "replayed")]
    )
    with parquet_file(folder / DIFFERENCES, schema) as file:
        made = DifferenceFile(file, schema)
        yield made
        made.flush()


class WrittenFile(NamedTuple):
    path: Path
    rows: int


def write_states(wanted: Expectation, folder: Path, report: Report) -> list[WrittenFile]:
    """Write the job's rows and the expected ones, both of the compared windows."""
    live = wanted.live
    return [
        _written(live.job, live.pieces(wanted.above_ms, report), folder / LIVE),
        _written(wanted.job, wanted.expected_rows(report), folder / REPLAYED),
    ]


def _written(job: Job, pieces: Iterator[Rows], path: Path) -> WrittenFile:
    schema = schema_of(job, {})
    with parquet_file(path, schema) as file:
        for batch in batches(job, schema, joined(map(columns_of, pieces), _BATCH_ROWS, _BATCH_BYTES)):
            file.add(batch)
    return WrittenFile(path, file.rows)


def require_folder(folder: Path) -> None:
    """Create the folder for the files. Raises MachineError if that fails, or if pyarrow is missing."""
    pyarrow()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"{folder} cannot be created: {error.strerror or error}") from None
