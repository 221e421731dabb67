"""Sorted rows of several places on disk, so that a comparison need not fit into memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType

from cutwater.adapters.hashing import key_hash, row_hash
from cutwater.core.checks.state_comparison import PLACES, PlaceRow, RowName
from cutwater.core.errors import UsageError
from cutwater.core.job.shards import ShardMap

_CHUNK = 5_000
_CREATE = """
create table held (
    place text, shard integer, key text, start_ms integer, end_ms integer, value blob,
    primary key (place, shard, key, start_ms, end_ms)
) without rowid"""
_READ = "select shard, key, start_ms, end_ms, value from held where place = ?"
_ORDER = "order by shard, key, start_ms, end_ms"
_ALL, _SHARD = f"{_READ} {_ORDER}", f"{_READ} and shard = ? {_ORDER}"
Report = Callable[[str, int], None]
"""Called now and then with a place and its number of rows read."""


def held_hash(name: RowName, value: bytes) -> int:
    return row_hash(f"{name.key}\0{name.start_ms}\0{name.end_ms}".encode(), value)


class ScratchTable:
    """The rows of one place. Of each name the last one that was put counts."""

    def __init__(
        self, database: sqlite3.Connection, place: str, shards: ShardMap, rows_max: int, report: Report
    ) -> None:
        self.place = place
        self._database = database
        self._shards = shards
        self._rows_max = rows_max
        self._report = report
        self._pending: list[tuple[str, int, str, int, int, bytes]] = []
        self._put = 0

    def put(self, name: RowName, value: bytes) -> None:
        """Put a row. Raises UsageError if there are more rows than the limit."""
        self._pending.append((self.place, self._shards.shard(key_hash(name.key)), *name, value))
        if len(self._pending) >= _CHUNK:
            self.flush()

    def delete(self, name: RowName) -> None:
        self.flush()
        self._database.execute(
            "delete from held where place = ? and shard = ? and key = ? and start_ms = ? and end_ms = ?",
            (self.place, self._shards.shard(key_hash(name.key)), *name),
        )

    def flush(self) -> None:
        """Write pending rows, and check the limit. Raises UsageError if there are more rows."""
        self._database.executemany("insert or replace into held values (?, ?, ?, ?, ?, ?)", self._pending)
        before, self._put = self._put, self._put + len(self._pending)
        self._pending.clear()
        self._report(self.place, self._put)
        # One name may be put many times, so count only after each further `rows_max` puts.
        if self._put // self._rows_max > before // self._rows_max and self.count() > self._rows_max:
            raise UsageError(f"the {self.place} holds more than {self._rows_max:,} rows: give a larger --rows-max")

    def count(self) -> int:
        found = self._database.execute("select count(*) from held where place = ?", (self.place,))
        return int(found.fetchone()[0])

    def rows(self, shards: frozenset[int] | None = None) -> Iterator[PlaceRow]:
        self.flush()
        if shards is None:
            yield from self._place_rows(self._database.execute(_ALL, (self.place,)))
        else:
            for shard in sorted(shards):
                yield from self._place_rows(self._database.execute(_SHARD, (self.place, shard)))

    def _place_rows(self, rows: Iterable[tuple[int, str, int, int, bytes]]) -> Iterator[PlaceRow]:
        for shard, key, start_ms, end_ms, value in rows:
            yield PlaceRow(shard, RowName(key, start_ms, end_ms), value)


class Scratch:
    """A database for one comparison, closed at the end of the `with` block."""

    def __init__(
        self,
        folder: Path,
        shards: ShardMap,
        rows_max: int,
        report: Report = lambda _place, _rows: None,
        places: Iterable[str] = PLACES,
    ):
        """`rows_max`: the limit for each place."""
        self._database = sqlite3.connect(folder / "rows.sqlite", isolation_level=None)
        # Useless after a crash, so nothing needs to be durable.
        self._database.execute("pragma journal_mode = off")
        self._database.execute("pragma synchronous = off")
        self._database.execute(_CREATE)
        self._tables = {place: ScratchTable(self._database, place, shards, rows_max, report) for place in places}

    def __getitem__(self, place: str) -> ScratchTable:
        return self._tables[place]

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()
