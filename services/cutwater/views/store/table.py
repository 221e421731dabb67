"""The ordered, durable map of bytes under a store: RocksDB, or a simulation's substitute."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from rocksdict import Checkpoint, IngestExternalFileOptions, Rdict, ReadOptions, WriteBatch, WriteOptions

from cutwater.adapters.runtime.crash_points import reach
from cutwater.views.store.rocksdb_tuning import MEMORY_BYTES, Figures, Tuning

_COMPACTIONS = ("num-running-compactions", "compaction-pending")


class Cursor(Protocol):
    """An iterator over the keys as of its creation, whatever is written later."""

    def seek(self, key: bytes) -> None: ...

    def valid(self) -> bool: ...

    def status(self) -> None:
        """Raise if the cursor is invalid because reading failed."""

    def key(self) -> bytes: ...

    def value(self) -> bytes: ...

    def next(self) -> None: ...


class Table(Protocol):
    """A durable map. Raises the library's errors, which the store explains."""

    def get(self, key: bytes) -> bytes | None: ...

    def write(
        self,
        rows: Mapping[bytes, bytes | None],
        drop: tuple[bytes, bytes] | None = None,
        logged: bool = True,
    ) -> None:
        """Write one atomic batch: None deletes a key, `drop` all keys in [first, second) except those in
        `rows`. Unless `logged`, a crash before the next `flush` loses the batch."""

    def flush(self) -> None:
        """Make all writes durable."""

    def load(self, files: Sequence[Path]) -> None:
        """Ingest sorted files by moving them: durable, and above everything written before."""

    def loading(self, now: bool) -> None:
        """Switch automatic compaction off (`now`) or on."""

    def sorting(self) -> bool:
        """Return whether files are being compacted, or are about to be."""

    def cursor(self, stop: bytes) -> Cursor:
        """Return a cursor over the keys below `stop`."""

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the present keys in [start, stop) with their values, in order. Cheaper than a cursor, but if
        reading fails, it ends as if at the last key."""

    def checkpoint(self, folder: Path) -> None:
        """Make a durable copy in a new folder. Shares files if possible."""

    def replace(self, files: Path) -> None:
        """Become the table in another folder of the same disk. No other process can open it in between."""

    def figures(self) -> Figures:
        """Return the statistics. Raises while the table is closed or being replaced."""

    def close(self) -> None: ...


class RocksTable:
    """One RocksDB folder, open in one process at a time. RocksDB's own lock is inside the folder and is removed
    with it. The lock beside the folder also holds during `replace`."""

    def __init__(self, folder: Path, memory_bytes: int = MEMORY_BYTES) -> None:
        """`memory_bytes`: the bound of its memory, see `Tuning`."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._lock = locked(folder.with_name(f"{folder.name}.lock"))
        try:
            self._open()
        except BaseException:
            self._unlock()
            raise

    def _open(self) -> None:
        self._tuning = Tuning(self._memory_bytes)
        self._loaded_bytes = 0
        options = self._tuning.options
        # For an existing folder rocksdict uses the stored options, which lack the memory bound.
        self._db = Rdict(str(self._folder), options, column_families={"default": options})

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
        self._loaded_bytes += sum(file.stat().st_size for file in files)
        self._db.ingest_external_file([str(file) for file in files], options)

    def loading(self, now: bool) -> None:
        self._db.set_options({"disable_auto_compactions": str(now).lower()})

    def sorting(self) -> bool:
        return any(self._db.property_int_value(f"rocksdb.{one}") for one in _COMPACTIONS)

    def cursor(self, stop: bytes) -> Cursor:
        cursor: Cursor = self._db.iter(_below(stop))
        return cursor

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        rows: Iterator[tuple[bytes, bytes]] = self._db.items(from_key=start, read_opt=_below(stop))
        return rows

    def checkpoint(self, folder: Path) -> None:
        Checkpoint(self._db).create_checkpoint(str(folder))

    def replace(self, files: Path) -> None:
        self._db.close()
        shutil.rmtree(self._folder)
        reach("view-dropped")
        _sync(files)
        files.rename(self._folder)
        _sync(self._folder.parent)
        self._open()

    def figures(self) -> Figures:
        return self._tuning.figures(self._db, self._loaded_bytes)

    def close(self) -> None:
        try:
            self._db.close()
        finally:
            self._unlock()

    def _unlock(self) -> None:
        self._lock.close()


def _below(stop: bytes) -> ReadOptions:
    options = ReadOptions()
    options.set_iterate_upper_bound(stop)
    return options


def locked(place: Path) -> IO[bytes]:
    """Lock until closed or until the process ends. Raises BlockingIOError, with "lock" in its text, if it is held;
    OSError if the disk has no locks."""
    file = place.open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # EWOULDBLOCK, EAGAIN
        file.close()
        raise BlockingIOError(f"the lock {place} is held") from None
    except OSError:
        file.close()
        raise
    return file


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
