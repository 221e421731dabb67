"""A Parquet file of record batches, written completely or not at all."""

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
"""Size of a group's columns in memory, which one batch may exceed. At most one group is in memory."""


class ParquetFile:
    """The result of `parquet_file`: takes batches of any size, and writes them as row groups."""

    def __init__(self, writer: Any, schema: Schema) -> None:
        self.rows = 0
        self._writer = writer
        self._schema = schema
        self._group: list[Batch] = []
        self._group_rows = self._group_bytes = 0

    def add(self, batch: Batch) -> None:
        """Add a batch. Raises OSError, which `parquet_file` converts."""
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
        if self._group:
            table = pyarrow().Table.from_batches(self._group, self._schema)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._group, self._group_rows, self._group_bytes = [], 0, 0


@contextmanager
def parquet_file(path: Path, schema: Schema) -> Iterator[ParquetFile]:
    """Write a file under a temporary name, and rename it after the block succeeds; an existing file is replaced.

    The schema's metadata become the file's. Raises MachineError if pyarrow is missing or the file cannot be
    written.
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
            f"{path} cannot be written: {error.strerror or error}. Its folder must exist, be writable and have "
            "space"
        ) from None
    finally:
        part.unlink(missing_ok=True)


def _sync(part: Path) -> None:
    # Before the rename, so that the name never refers to incomplete data.
    with part.open("rb") as file:
        os.fsync(file.fileno())
