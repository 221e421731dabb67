"""A Parquet file of record batches that is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cutwater.adapters.columnar.arrow import Batch, Schema, pyarrow
from cutwater.core.errors import MachineError

ROW_GROUP_ROWS = 100_000
ROW_GROUP_BYTES = 64 << 20
"""Of its columns in memory, and one batch more: no more than one group is held."""


class ParquetFile:
    """What `parquet_file` gives: takes batches of any size, and makes row groups of them."""

    def __init__(self, writer: Any, schema: Schema) -> None:
        self.rows = 0
        self._writer = writer
        self._schema = schema
        self._group: list[Batch] = []
        self._group_rows = self._group_bytes = 0

    def add(self, batch: Batch) -> None:
        """Raises OSError, which `parquet_file` explains."""
        for start in range(0, batch.num_rows, ROW_GROUP_ROWS):
            self._take(batch.slice(start, ROW_GROUP_ROWS))

    def _take(self, batch: Batch) -> None:
        if self._group_rows + batch.num_rows > ROW_GROUP_ROWS or self._group_bytes >= ROW_GROUP_BYTES:
            self.flush()
        self._group.append(batch)
        self._group_rows += batch.num_rows
        self._group_bytes += batch.nbytes
        self.rows += batch.num_rows

    def flush(self) -> None:
        """End the row group."""
        if self._group:
            table = pyarrow().Table.from_batches(self._group, self._schema)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._group, self._group_rows, self._group_bytes = [], 0, 0


@contextmanager
def parquet_file(path: Path, schema: Schema) -> Iterator[ParquetFile]:
    """Written under another name beside it, and renamed when the block has ended well; a file of this name goes.

    The schema's metadata become the file's. Raises MachineError where pyarrow is missing, or the disk or the
    folder does not let it.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    parquet = pyarrow("pyarrow.parquet")
    try:
        with parquet.ParquetWriter(part, schema, compression="zstd") as writer:
            file = ParquetFile(writer, schema)
            yield file
            file.flush()
        _sync(part)
        part.replace(path)
    except OSError as error:
        raise MachineError(
            f"{path} cannot be written: {error.strerror or error}. Its folder must exist, with room and writable"
        ) from None
    finally:
        part.unlink(missing_ok=True)


def _sync(part: Path) -> None:
    """On disk before it has its name."""
    with part.open("rb") as file:
        os.fsync(file.fileno())
