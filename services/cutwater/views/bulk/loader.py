"""A bulk restore: workers read the partitions of a changelog in parallel; their sorted files go into the store.

It is for what takes minutes otherwise: an empty view, or one that was away for long. What is in the store, and how
far that reaches, is written down file by file, so a restore that was broken off goes on where it was.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Protocol, cast

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core import errors
from cutwater.core.errors import CutwaterError, DivergenceError, MachineError
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.bulk_load import Done, Slice, Task, divided, left
from cutwater.views.bulk.worker import Worker
from cutwater.views.changelog.missing_records import told_exactly
from cutwater.views.changelog.proof import writer_of
from cutwater.views.changelog.range_reader import STALL_S, Stopped
from cutwater.views.store.rocksdb_tuning import failure
from cutwater.views.store.store import Store, loading_folder

BULK_RECORDS = 100_000
"""Fewer are read in this process: another one takes a quarter of a second to begin."""
FILE_ROWS = 400_000
FILE_BYTES = 96 << 20
"""Rows, and bytes of keys and values, that all workers together hold before they write them into files."""
_NATIVE_ROWS = 2
"""So many where Python holds one: no objects are around them."""
WORKERS_MAX = 4
"""That are taken by themselves: more are fast only where the brokers are."""
_KEPT_VARIABLES = frozenset(
    ["PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "PYTHONPATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"]
)
_POLL_S = 0.2
_END_S = 5.0


class Observer(Protocol):
    """Who counts how a restore comes on."""

    def loaded(self, done: Done, records_max: int) -> None: ...


class Unobserved:
    """Whoever has it loaded tells of it at the end."""

    def loaded(self, done: Done, records_max: int) -> None: ...


class Bulk:
    """Loads ranges of one job's changelog into a store."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        topic: str,
        store: Store,
        observer: Observer,
        workers: int = 1,
        stopping: Callable[[], bool] = lambda: False,
        least_records: int = BULK_RECORDS,
        file_rows: int = FILE_ROWS,
        stall_s: float = STALL_S,
        native: bool = False,
    ) -> None:
        """`native`: gather rows by the optional module, which can be imported."""
        self._cluster = cluster
        self._topic = topic
        self._store = store
        self._observer = observer
        self._workers = workers
        self._stopping = stopping
        self._least_records = least_records
        self._file_rows = file_rows
        self._stall_s = stall_s
        self._native = native
        self._headers = (Codec(WINDOW_KEY_SCHEMA).header.hex(), Codec(job.state_schema).header.hex())

    def pays(self, slices: Iterable[Slice]) -> bool:
        """Is there enough, with what was loaded before, not to be read record by record?"""
        return sum(one.records_max for one in slices) >= self._least_records

    def load(self, milestone: Milestone, slices: Iterable[Slice], floor_ms: int | None = None) -> Done:
        """Everything in the slices is in the store, and what was counted of it.

        `floor_ms`: windows that end at or below it are not kept; None for the milestone's horizon.

        The store must have begun the milestone, or show none yet. Raises what a worker raised: DivergenceError,
        UnavailableError, MachineError, UsageError; Stopped at the process's end. Another call then goes on where
        this one was.
        """
        slices = list(slices)
        records_max = sum(one.records_max for one in slices)
        done = self._store.loaded(milestone) or Done({})
        for one in slices:
            if done.next.get(one.partition, 0) > one.end:
                raise DivergenceError(
                    f"{self._topic}/{one.partition} is loaded up to {done.next[one.partition]}, and milestone "
                    f"{milestone.token} ends at {one.end}: delete {self._store.folder}, and it is built anew"
                )
        folder = loading_folder(self._store.folder)
        floor_ms = self._store.floor_ms(milestone.horizon_ms if floor_ms is None else floor_ms)
        rest = left(slices, done)
        alone = sum(one.records_max for one in rest) < self._least_records
        parts = divided(rest, 1 if alone else self._workers)
        crew = _Alone(self._cluster) if alone else _Crew(self._cluster, len(parts))
        try:
            shutil.rmtree(folder, ignore_errors=True)
            try:
                folder.mkdir(parents=True)
            except OSError as error:
                raise failure(f"{folder}: {error}. Check that it can be written", error) from None
            self._store.loading(True)
            for part in parts:
                crew.hire(self._task(milestone, folder, part, len(parts), floor_ms))
            with told_exactly(self._cluster, self._topic, lambda: needed(slices, done)):
                for path, more in crew.files(self._stopping):
                    done = done.plus(more)
                    self._store.load([Path(path)] if path else [], milestone, done, floor_ms)
                    crew.go_on()
                    self._observer.loaded(done, records_max)
        finally:
            crew.end()
            shutil.rmtree(folder, ignore_errors=True)  # before what a full disk may refuse
            self._store.loading(False)
        return done

    def _task(self, milestone: Milestone, folder: Path, slices: list[Slice], workers: int, floor_ms: int) -> Task:
        key_header, value_header = self._headers
        selection = self._store.selection
        native = self._native and selection is None  # the module keeps every row
        return Task(
            topic=self._topic,
            slices=slices,
            folder=str(folder),
            segment_ms=self._store.segment_ms,
            floor_ms=selection.raised(floor_ms) if selection else floor_ms,
            horizon_ms=milestone.horizon_ms,
            own=writer_of(milestone).decode(),
            key_header=key_header,
            value_header=value_header,
            rows_max=max(1, (_NATIVE_ROWS if native else 1) * self._file_rows // workers),
            bytes_max=FILE_BYTES // workers,
            stall_s=self._stall_s,
            native=native,
            selection=selection,
        )


class _Alone:
    """This process, as the one worker of a load that is little: to begin another one would take longer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tasks: list[Task] = []

    def hire(self, task: Task) -> None:
        self._tasks.append(task)

    def files(self, stopping: Callable[[], bool]) -> Iterable[tuple[str, Done]]:
        for task in self._tasks:
            yield from self._files(task, stopping)

    def _files(self, task: Task, stopping: Callable[[], bool]) -> list[tuple[str, Done]]:
        told: list[tuple[str, Done]] = []  # of one file, or few
        worker = Worker(task, self._cluster, lambda path, done: told.append((path, done)), stopping)
        try:
            worker.run()
        except (CutwaterError, Stopped):
            raise
        except Exception as error:  # of a process of its own, too, it is an error of the machine
            raise MachineError(f"{task.topic} cannot be loaded: {error!r}") from error
        finally:
            worker.close()
        return told

    def go_on(self) -> None:
        """Files are told of when all are there."""

    def end(self) -> None:
        """It goes on with other work."""


class _Crew:
    """The workers of one load, as processes."""

    def __init__(self, cluster: Cluster, most: int) -> None:
        self._cluster = cluster
        # Each waits for an answer after a file, so there is one line of each at most, and the last one.
        self._told: queue.Queue[tuple[_Worker, dict[str, Any]]] = queue.Queue(maxsize=2 * most + 1)
        self._workers: list[_Worker] = []
        self._answered: _Worker | None = None

    def hire(self, task: Task) -> None:
        """One worker more."""
        worker = _Worker(task, self._cluster)
        self._workers.append(worker)
        threading.Thread(target=self._listen, args=(worker,), name="worker's lines", daemon=True).start()

    def files(self, stopping: Callable[[], bool]) -> Iterable[tuple[str, Done]]:
        """Each file as it is there; answer by `go_on` once it is in the store. Raises what a worker raised."""
        working = len(self._workers)
        while working:
            if stopping():
                raise Stopped
            try:
                worker, line = self._told.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if "file" in line:
                self._answered = worker
                yield line["file"], Done.of(line["done"])
            elif "ended" in line:
                working -= 1
            else:
                raise _error(line)

    def go_on(self) -> None:
        """The worker that told of the last file may write the next."""
        if self._answered is not None:
            self._answered.say("")

    def end(self) -> None:
        """No worker is left."""
        for worker in self._workers:
            worker.dismiss()
        for worker in self._workers:
            worker.bury()

    def _listen(self, worker: _Worker) -> None:
        """Whatever happens, the last line says that the worker has ended, and how: somebody waits for it."""
        last: dict[str, Any] = {}
        try:
            for text in worker.lines:
                last = json.loads(text)
                self._told.put((worker, last))
            problem = f"a worker of the restore ended with {worker.code()}; see the log above"
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            last, problem = {}, f"a worker of the restore cannot be understood: {error!r}"
        if not last or "file" in last:
            self._told.put((worker, {"error": "MachineError", "text": problem}))


class _Worker:
    """One process of `worker`."""

    def __init__(self, task: Task, cluster: Cluster) -> None:
        # The brokers' secrets it is told; the others of this process are none of its business.
        kept = {name: value for name, value in os.environ.items() if name in _KEPT_VARIABLES}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cutwater.views.bulk.worker", task.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=kept,
            text=True,
        )
        self._input, self.lines = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        self.say(task.text())
        # Not by the environment: to read the settings from there takes as long as everything else at its start.
        self.say(json.dumps(asdict(cluster)))

    def say(self, line: str) -> None:
        with suppress(BrokenPipeError):  # it has ended: its last line says why
            self._input.write(line + "\n")
            self._input.flush()

    def code(self) -> int:
        """How it ended, which it has."""
        return self._process.wait(_END_S)

    def dismiss(self) -> None:
        """It ends by itself when nobody will answer any more."""
        with suppress(BrokenPipeError):
            self._input.close()

    def bury(self) -> None:
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S)
        self.lines.close()


def needed(slices: Iterable[Slice], done: Done) -> dict[int, tuple[int, int]]:
    """What is still to be read, by partition: first offset and end."""
    return {one.partition: (one.first, one.end) for one in left(slices, done)}


def workers_by_default() -> int:
    """One for each core that this process may use, within a bound."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, WORKERS_MAX)


def _error(line: dict[str, Any]) -> CutwaterError:
    kind = getattr(errors, str(line.get("error")), MachineError)
    found: CutwaterError = kind(str(line.get("text")))
    return found
