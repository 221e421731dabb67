"""What survives a crash: Spark's checkpoint and the table that a view lies in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cutwater.core.protocol.cuts import Cut, EpochPlan
from cutwater.views.store.rocksdb_tuning import Figures
from simulation.processes import Process


class Concurrent(Exception):
    """Spark's own check: another query writes to this checkpoint."""


class Disk:
    """One query's checkpoint: `offsets/N` and `commits/N`, each written once."""

    def __init__(self) -> None:
        self.plans: dict[int, EpochPlan] = {}
        self.commits: set[int] = set()
        self.ever_committed: set[int] = set()
        self.fetched: dict[tuple[int, Cut], list[Any]] = {}
        """The events that Spark read in an epoch up to a source cut, which that log may lose later."""

        self.pins: dict[tuple[int, int], str] = {}
        """By attempt and number: how its queries read, and close windows."""
        self.floors: dict[int, int] = {}
        """By committed epoch: up to where windows were closed for its events."""

    def roll_back(self, epochs: int) -> None:
        """An older copy of the checkpoint is put in its place."""
        newest = max(self.plans, default=-1)
        self.plans = {epoch: plan for epoch, plan in self.plans.items() if epoch <= newest - epochs}
        self.commits = {epoch for epoch in self.commits if epoch < newest - epochs}


class SimCheckpoint:
    """A process's way to the checkpoint (`cutwater.core.driver.ports.Checkpoint`)."""

    def __init__(self, disk: Disk, process: Process) -> None:
        self._disk = disk
        self._process = process

    def newest_planned(self) -> int:
        self._process.pause()
        return max(self._disk.plans, default=-1)

    def newest_committed(self) -> int:
        self._process.pause()
        return max(self._disk.commits, default=-1)

    def is_committed(self, epoch: int) -> bool:
        return epoch in self._disk.commits

    def is_planned(self, epoch: int) -> bool:
        return epoch in self._disk.plans

    def plan(self, epoch: int) -> EpochPlan:
        return self._disk.plans[epoch]

    def keep_decoding(self, attempt: int, decoding: str) -> None:
        self._process.pause()
        number = max((one for of, one in self._disk.pins if of == attempt), default=-1) + 1
        self._disk.pins[attempt, number] = decoding

    def newest_decoding(self) -> str | None:
        self._process.pause()
        return self._disk.pins[max(self._disk.pins)] if self._disk.pins else None

    def put_plan(self, epoch: int, plan: EpochPlan) -> None:
        self._process.pause()
        if epoch in self._disk.plans:
            raise Concurrent(f"offsets/{epoch}")
        self._disk.plans[epoch] = plan

    def put_commit(self, epoch: int) -> None:
        self._process.pause()
        if epoch in self._disk.commits:
            raise Concurrent(f"commits/{epoch}")
        self._disk.commits.add(epoch)
        self._disk.ever_committed.add(epoch)


class TableDisk:
    """The files of one table."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.checkpoints: dict[Path, dict[bytes, bytes]] = {}


class SimTable:
    """`cutwater.views.store.table.Table` in memory: a batch is whole or not there, what is not logged dies with
    us."""

    def __init__(self, disk: TableDisk, process: Process) -> None:
        self._disk = disk
        self._process = process
        self._unlogged: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        return self._unlogged[key] if key in self._unlogged else self._disk.rows.get(key)

    def write(
        self,
        rows: Mapping[bytes, bytes | None],
        drop: tuple[bytes, bytes] | None = None,
        logged: bool = True,
    ) -> None:
        self._process.pause()
        if not logged:
            self._unlogged |= rows
            return
        kept = self._disk.rows
        if drop is not None:
            for key in [one for one in kept if drop[0] <= one < drop[1]]:
                del kept[key]
            for key in [one for one in self._unlogged if drop[0] <= one < drop[1]]:
                self._unlogged[key] = None
        for key, value in rows.items():
            self._unlogged.pop(key, None)
            _put(kept, key, value)
        self._process.pause()

    def flush(self) -> None:
        self._process.pause()
        for key, value in self._unlogged.items():
            _put(self._disk.rows, key, value)
        self._unlogged = {}

    def load(self, files: Sequence[Any]) -> None:
        """Ingest sorted files: they are durable, and above what was written before."""
        self._process.pause()
        for file in files:
            for key, value in file.rows.items():
                self._unlogged.pop(key, None)
                _put(self._disk.rows, key, value)
        self._process.pause()

    def loading(self, now: bool) -> None:
        """Nothing compacts here."""

    def cursor(self, stop: bytes) -> SimCursor:
        return SimCursor(self._between(b"", stop))

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._between(start, stop))

    def _between(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        now = {**self._disk.rows, **self._unlogged}
        return sorted((key, value) for key, value in now.items() if value is not None and start <= key < stop)

    def checkpoint(self, folder: Path) -> None:
        self.flush()
        self._disk.checkpoints[folder] = dict(self._disk.rows)

    def sorting(self) -> bool:
        return False

    def figures(self) -> Figures:
        return Figures(*[0] * len(Figures._fields))

    def close(self) -> None:
        """Nothing is held."""


class SimCursor:
    def __init__(self, rows: list[tuple[bytes, bytes]]) -> None:
        self._rows = rows
        self._at = 0

    def seek(self, key: bytes) -> None:
        self._at = bisect_left(self._rows, (key,))

    def valid(self) -> bool:
        return self._at < len(self._rows)

    def status(self) -> None:
        """Reading never fails here."""

    def key(self) -> bytes:
        return self._rows[self._at][0]

    def value(self) -> bytes:
        return self._rows[self._at][1]

    def next(self) -> None:
        self._at += 1


def _put(rows: dict[bytes, bytes], key: bytes, value: bytes | None) -> None:
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value
