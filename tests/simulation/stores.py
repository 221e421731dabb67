"""The publisher's stores in the simulated world: their folders, the bulk load, and the thread that loads ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from cutwater.core.job.job import Job
from cutwater.core.output.suspects import Suspects
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.bulk_load import Done, Slice, remaining_slices
from cutwater.publisher.handover import handover, preload
from cutwater.publisher.handover.state_stores import StateStores
from cutwater.publisher.handover.store_folders import StoreFolders
from cutwater.views.bulk import worker
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.bulk.worker import Worker
from cutwater.views.store.store import Store
from simulation.disk import SimTable, TableDisk
from simulation.log import Log
from simulation.processes import Process, SimLock
from simulation.threads import _Clock

Disks = dict[tuple[Generation, bool], TableDisk]
"""What lies on the disk of a publisher's machine; True: a preloaded store."""
FILE_ROWS = 2
"""Of a bulk load: so few that its progress is written several times."""


class _Held(SimTable):
    """A table that only one may have open, as RocksDB's."""

    def __init__(self, disk: TableDisk, process: Process, held: set[int]) -> None:
        if id(disk) in held:
            raise BlockingIOError("the lock is held: a publisher has opened a store twice")
        super().__init__(disk, process)
        self._held = held
        held.add(id(disk))

    def close(self) -> None:
        self._held.discard(id(self._disk))


class SimFolders(StoreFolders):
    """The same folders, in memory. They outlive the process."""

    def __init__(
        self,
        disks: Disks,
        process: Process,
        store: type[Store],
        segment: int | None,
    ) -> None:
        super().__init__(Path("publisher"), segment)
        self._disks, self._process, self._store = disks, process, store
        self._held: set[int] = set()

    def exists(self, generation: Generation) -> bool:
        return (generation, False) in self._disks

    def open(self, generation: Generation, job: Job) -> Store:
        return self._open(generation, job, False)

    def open_preload(self, generation: Generation, job: Job) -> Store:
        return self._open(generation, job, True)

    def _open(self, generation: Generation, job: Job, ahead: bool) -> Store:
        disk = self._disks.setdefault((generation, ahead), TableDisk())
        return self._store(
            Path("publisher"),
            job,
            generation,
            self._segment,
            lambda _folder: _Held(disk, self._process, self._held),
        )

    def adopt_preload(self, generation: Generation) -> bool:
        ahead = self._disks.get((generation, True))
        if ahead is None or id(ahead) in self._held or (generation, False) in self._disks:
            return False
        self._disks[generation, False] = self._disks.pop((generation, True))
        return True

    def remove_preload(self, generation: Generation) -> None:
        if id(self._disks.get((generation, True))) in self._held:
            raise BlockingIOError("the preloaded store is open")
        self._disks.pop((generation, True), None)

    def remove(self, generation: Generation) -> None:
        self._disks.pop((generation, False), None)

    def remove_others(self, kept: Generation | None) -> None:
        for one in [one for one in self._disks if one != (kept, False)]:
            del self._disks[one]

    def is_roomy(self) -> bool:
        return True


class SimStates(StateStores):
    """Loads with one worker, as a fiber of whoever loads."""

    def bulk(
        self,
        cluster: Any,
        store: Store,
        topic: str,
        stopping: Callable[[], bool],
        workers: int | None = None,
        niceness: int = 0,
    ) -> BulkLoader:
        found = super().bulk(cluster, store, topic, stopping, workers, niceness)
        found.__class__ = SimBulk
        return found


class SimBulk(BulkLoader):
    """Hands each file over as soon as it is written."""

    def load(self, milestone: Milestone, slices: Iterable[Slice], floor_ms: int | None = None) -> Done:
        done = self._store.loaded(milestone) or Done({})
        floor_ms = self._store.floor_ms(milestone.horizon_ms if floor_ms is None else floor_ms)

        def hand_over(path: str, more: Done) -> None:
            nonlocal done
            done = done.plus(more)
            self._store.load([_FILES.pop(path)] if path else [], milestone, done, floor_ms)

        self._file_rows = FILE_ROWS
        for one in remaining_slices(slices, done):
            if one.records_max:
                task = self._task(milestone, Path("files"), [one], 1, floor_ms)
                SimWorker(task, self._cluster, hand_over, self._stopping, self._store.touched).run()
        return done


class SimWorker(Worker):
    """Waits for what it has not got. The real one gives up after a minute, by its clock, and is asked again."""

    def _read(self) -> bool:
        came = super()._read()
        if not came:
            fetcher: Any = self._fetcher
            fetcher.wait_for_more()
        return came


class SimFile:
    """A sorted file of rows that waits to be ingested."""

    def __init__(self, rows: Mapping[bytes, bytes]) -> None:
        self.rows = rows

    def stat(self) -> Any:
        return SimpleNamespace(st_size=len(self.rows))


_FILES: dict[str, Any] = {}


def _write_sorted(path: str, gathered: Any, touched: Suspects | None = None) -> bool:
    rows: dict[bytes, bytes] = {}
    if not gathered.write(rows):
        return False
    if touched is not None:
        touched.add(rows)
    _FILES[path] = SimFile(rows)
    return True


class _Stop:
    """A `threading.Event` whose waiting is a pause: until it is set, or until anything happens on the log."""

    log: Log

    def __init__(self) -> None:
        self._process, self._set = Process.running, False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True

    def wait(self, timeout: float | None = None) -> bool:
        version = self.log.version
        self._process.pause(lambda: self._set or self.log.version != version)
        return self._set


class _Lock(SimLock):
    def __init__(self) -> None:
        super().__init__(Process.running)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


class _Thread:
    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], **_named: object) -> None:
        self._run = lambda: target(*args)

    def start(self) -> None:
        Process.running.spawn(self._run, passing=True)

    def join(self, _timeout_s: float) -> None:
        """It ends with the process."""


@contextmanager
def loading_ahead(log: Log) -> Iterator[None]:
    """Inside, a hand-over waits and loads without a thread."""
    stop = type("Stop", (_Stop,), {"log": log})
    with ExitStack() as held:
        for owner, name, instead in (
            (handover, "time", _Clock()),
            (preload, "threading", SimpleNamespace(Event=stop, Lock=_Lock, Thread=_Thread)),
            (worker, "write_sorted", _write_sorted),
        ):
            held.enter_context(patch.object(owner, name, instead))
        yield
