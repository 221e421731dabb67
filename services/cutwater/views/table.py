"""The ordered, durable map of bytes that a store lies in: RocksDB, or what a simulation puts in its place."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from rocksdict import (
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from cutwater.adapters.crashing import reach

CACHE_BYTES = 48 << 20
"""Blocks read and memory written share this budget."""
WRITE_BUFFERS_BYTES = 32 << 20


class Cursor(Protocol):
    """A place among the keys as they were when it was made, whatever is written later."""

    def seek(self, key: bytes) -> None: ...

    def valid(self) -> bool: ...

    def status(self) -> None:
        """Raises when the cursor is not valid because reading failed."""

    def key(self) -> bytes: ...

    def value(self) -> bytes: ...

    def next(self) -> None: ...


class Table(Protocol):
    """Errors are those of the library; the store says what they mean."""

    def get(self, key: bytes) -> bytes | None: ...

    def write(
        self,
        rows: Mapping[bytes, bytes | None],
        drop: tuple[bytes, bytes] | None = None,
        logged: bool = True,
    ) -> None:
        """One batch, all of it or nothing: None deletes a key, `drop` all keys in [first, second) but these rows'.

        What is not `logged` is lost in a crash, unless `flush` came after it.
        """

    def flush(self) -> None:
        """Everything written is durable."""

    def load(self, files: Sequence[Path]) -> None:
        """Take sorted files as they are, and move them away: durable, and above everything written before."""

    def loading(self, now: bool) -> None:
        """While much is loaded, files are not sorted into each other."""

    def cursor(self, stop: bytes) -> Cursor:
        """Over the keys below `stop`."""

    def checkpoint(self, folder: Path) -> None:
        """The table as it is now as another one in a new folder, durable. Files are shared where they can be."""

    def replace(self, files: Path) -> None:
        """Become the table that lies in another folder of the same disk. Nobody else can open it in between."""

    def close(self) -> None: ...


class RocksTable:
    """One RocksDB folder, open in one process at a time.

    RocksDB's own lock lies in the folder and goes with it; the one beside it holds while the folder is replaced.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = _locked(folder.with_name(f"{folder.name}.lock"))
        try:
            self._db = Rdict(str(folder), _options())
        except BaseException:
            self._unlock()
            raise

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None = self._db.get(key)
        return found

    def write(
        self,
        rows: Mapping[bytes, bytes | None],
        drop: tuple[bytes, bytes] | None = None,
        logged: bool = True,
    ) -> None:
        batch, options = WriteBatch(raw_mode=True), WriteOptions()
        options.disable_wal = not logged
        if drop is not None:
            batch.delete_range(*drop)
        for key, value in rows.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        self._db.write(batch, options)

    def flush(self) -> None:
        self._db.flush()

    def load(self, files: Sequence[Path]) -> None:
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        self._db.ingest_external_file([str(file) for file in files], options)

    def loading(self, now: bool) -> None:
        self._db.set_options({"disable_auto_compactions": str(now).lower()})

    def cursor(self, stop: bytes) -> Cursor:
        options = ReadOptions()
        options.set_iterate_upper_bound(stop)
        cursor: Cursor = self._db.iter(options)
        return cursor

    def checkpoint(self, folder: Path) -> None:
        Checkpoint(self._db).create_checkpoint(str(folder))

    def replace(self, files: Path) -> None:
        self._db.close()
        shutil.rmtree(self._folder)
        reach("view-dropped")
        _sync(files)
        files.rename(self._folder)
        _sync(self._folder.parent)
        self._db = Rdict(str(self._folder), _options())

    def close(self) -> None:
        try:
            self._db.close()
        finally:
            self._unlock()

    def _unlock(self) -> None:
        self._lock.close()


def _locked(place: Path) -> IO[bytes]:
    """Held until it is closed, or the process dies. Raises BlockingIOError, whose text speaks of a lock."""
    file = place.open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise BlockingIOError(f"the lock {place} is held") from None
    return file


def _sync(folder: Path) -> None:
    """What was renamed in it is durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _options() -> Options:
    cache = Cache(CACHE_BYTES)
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_cache_index_and_filter_blocks(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_manager(
        WriteBufferManager.new_write_buffer_manager_with_cache(WRITE_BUFFERS_BYTES, False, cache)
    )
    options.set_write_buffer_size(WRITE_BUFFERS_BYTES // 4)
    options.set_max_background_jobs(2)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(3)
    options.set_max_log_file_size(4 << 20)
    return options
