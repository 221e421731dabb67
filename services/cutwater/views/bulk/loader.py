"""Bulk load: workers read the partitions of a changelog in parallel and write sorted files for the store to
ingest.

For reads that would take minutes: an empty view, or one that is far behind. The store records the progress after
each file, so an interrupted load continues there.
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
from cutwater.core.output.suspects import Suspects
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.bulk_load import BULK_RECORDS, Done, Slice, Task, divided, remaining_slices
from cutwater.views.bulk.worker import Worker
from cutwater.views.changelog.missing_records import name_missing_records
from cutwater.views.changelog.proof import writer_of
from cutwater.views.changelog.range_reader import STALL_S, Stopped
from cutwater.views.store.folders import loading_folder
from cutwater.views.store.rocksdb_tuning import failure
from cutwater.views.store.store import Store

FILE_ROWS = 400_000
FILE_BYTES = 96 << 20
"""Rows, and bytes of keys and values, that all workers together hold before they write files."""
_NATIVE_ROWS = 2
"""Rows that the native module holds in the memory of one row of Python."""
WORKERS_MAX = 4
"""The most workers by default: more help only if the brokers are fast."""
_KEPT_VARIABLES = frozenset(
    ["PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "PYTHONPATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"]
)
_POLL_S = 0.2
_END_S = 5.0


class Observer(Protocol):
    """Metrics of a load."""

    def loaded(self, done: Done, records_max: int) -> None: ...


class Unobserved:
    """No metrics: the caller reports at the end."""

    def loaded(self, done: Done, records_max: int) -> None: ...


class BulkLoader:
    """Loader of ranges of one job's changelog into a store."""

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
        niceness: int = 0,
    ) -> None:
        """`native`: gather rows with the optional module, which must be importable. `niceness`: added to that of
        the worker processes (0 to 19)."""
        self._niceness = niceness
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
        self._overlap_ms = job.overlap_ms
        self._headers = (Codec(WINDOW_KEY_SCHEMA).header.hex(), Codec(job.state_schema).header.hex())

    def is_worthwhile(self, slices: Iterable[Slice]) -> bool:
        """Return whether the ranges, including loaded parts, are large enough for a bulk load."""
        return sum(one.records_max for one in slices) >= self._least_records

    def load(self, milestone: Milestone, slices: Iterable[Slice], floor_ms: int | None = None) -> Done:
        """Load everything in the slices into the store; return what was counted.

        `floor_ms`: windows that end at or below it are not kept; None for the milestone's horizon.

        Requires `Store.begin`, or a store that shows no milestone. Raises a worker's error: DivergenceError,
        UnavailableError, MachineError, UsageError; Stopped if the process ends. The next call continues.
        """
        slices = list(slices)
        records_max = sum(one.records_max for one in slices)
        done = self._store.loaded(milestone) or Done({})
        for one in slices:
            if done.next.get(one.partition, 0) > one.end:
                raise DivergenceError(
                    f"{self._topic}/{one.partition} is loaded up to {done.next[one.partition]}, and milestone "
                    f"{milestone.token} ends at {one.end}: delete {self._store.folder} to rebuild the view"
                )
        folder = loading_folder(self._store.folder)
        floor_ms = self._store.floor_ms(milestone.horizon_ms if floor_ms is None else floor_ms)
        rest = remaining_slices(slices, done)
        alone = sum(one.records_max for one in rest) < self._least_records
        parts = divided(rest, 1 if alone else self._workers)
        touched = self._store.touched
        crew = _InProcessPool(self._cluster, touched) if alone else _WorkerPool(self._cluster, len(parts))
        if touched is not None and not alone:
            touched.give_up()  # too many rows to gather their names from other processes
        try:
            shutil.rmtree(folder, ignore_errors=True)
            try:
                folder.mkdir(parents=True)
            except OSError as error:
                raise failure(f"{folder}: {error}. Check that the folder is writable", error) from None
            self._store.loading(True)
            for part in parts:
                crew.start(self._task(milestone, folder, part, len(parts), floor_ms))
            with name_missing_records(self._cluster, self._topic, lambda: needed(slices, done)):
                for path, more in crew.files(self._stopping):
                    done = done.plus(more)
                    self._store.load([Path(path)] if path else [], milestone, done, floor_ms)
                    crew.acknowledge()
                    self._observer.loaded(done, records_max)
        finally:
            crew.close()
            shutil.rmtree(folder, ignore_errors=True)  # first, since a full disk may refuse the rest
            self._store.loading(False)
        return done

    def _task(self, milestone: Milestone, folder: Path, slices: list[Slice], workers: int, floor_ms: int) -> Task:
        key_header, value_header = self._headers
        selection = self._store.selection
        native = self._native and selection is None  # the module does not support selections
        return Task(
            topic=self._topic,
            slices=slices,
            folder=str(folder),
            segment_ms=self._store.segment_ms,
            floor_ms=selection.raised(floor_ms, self._overlap_ms) if selection else floor_ms,
            horizon_ms=milestone.horizon_ms,
            own=writer_of(milestone).decode(),
            key_header=key_header,
            value_header=value_header,
            rows_max=max(1, (_NATIVE_ROWS if native else 1) * self._file_rows // workers),
            bytes_max=FILE_BYTES // workers,
            stall_s=self._stall_s,
            native=native,
            selection=selection,
            niceness=self._niceness,
        )


class _InProcessPool:
    """Loader in this process for small loads, for which starting a process would take longer."""

    def __init__(self, cluster: Cluster, touched: Suspects | None = None) -> None:
        """`touched`: gets the storage keys of the rows."""
        self._cluster, self._touched = cluster, touched
        self._tasks: list[Task] = []

    def start(self, task: Task) -> None:
        self._tasks.append(task)

    def files(self, stopping: Callable[[], bool]) -> Iterable[tuple[str, Done]]:
        for task in self._tasks:
            yield from self._files(task, stopping)

    def _files(self, task: Task, stopping: Callable[[], bool]) -> list[tuple[str, Done]]:
        told: list[tuple[str, Done]] = []  # files, few
        tell = lambda path, done: told.append((path, done))  # noqa: E731
        worker = Worker(task, self._cluster, tell, stopping, self._touched)
        try:
            worker.run()
        except (CutwaterError, Stopped):
            raise
        except Exception as error:  # as for a worker process, an unexpected error is one of the machine
            raise MachineError(f"{task.topic} cannot be loaded: {error!r}") from error
        finally:
            worker.close()
        return told

    def acknowledge(self) -> None:
        """Do nothing: all files are written by then."""

    def close(self) -> None:
        """Do nothing: there is no process."""


class _WorkerPool:
    """The worker processes of one load."""

    def __init__(self, cluster: Cluster, most: int) -> None:
        self._cluster = cluster
        # Each worker waits for an answer after a file, so it has at most one such line and the last one.
        self._told: queue.Queue[tuple[_Worker, dict[str, Any]]] = queue.Queue(maxsize=2 * most + 1)
        self._workers: list[_Worker] = []
        self._answered: _Worker | None = None

    def start(self, task: Task) -> None:
        worker = _Worker(task, self._cluster)
        self._workers.append(worker)
        threading.Thread(target=self._listen, args=(worker,), name="worker's lines", daemon=True).start()

    def files(self, stopping: Callable[[], bool]) -> Iterable[tuple[str, Done]]:
        """Yield each file once written; call `acknowledge` after it is ingested. Raises a worker's error."""
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

    def acknowledge(self) -> None:
        """Let the worker of the last file write the next one."""
        if self._answered is not None:
            self._answered.send_line("")

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.close()
        for worker in self._workers:
            worker.reap()

    def _listen(self, worker: _Worker) -> None:
        """Queue the worker's lines. The last one always reports its end, which `files` waits for."""
        last: dict[str, Any] = {}
        try:
            for text in worker.lines:
                last = json.loads(text)
                self._told.put((worker, last))
            problem = f"a worker of the restore ended with {worker.code()}; see the log above"
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            last, problem = {}, f"a worker of the restore sent an unreadable line: {error!r}"
        if not last or "file" in last:
            self._told.put((worker, {"error": "MachineError", "text": problem}))


class _Worker:
    """One process of `worker`."""

    def __init__(self, task: Task, cluster: Cluster) -> None:
        # The worker gets the brokers' secrets by its input, and none of this process's other secrets.
        kept = {name: value for name, value in os.environ.items() if name in _KEPT_VARIABLES}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cutwater.views.bulk.worker", task.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=kept,
            text=True,
        )
        self._input, self.lines = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        self.send_line(task.text())
        # Not in the environment: loading the settings from there would double the start time.
        self.send_line(json.dumps(asdict(cluster)))

    def send_line(self, line: str) -> None:
        with suppress(BrokenPipeError):  # it has ended, and its last line says why
            self._input.write(line + "\n")
            self._input.flush()

    def code(self) -> int:
        """Return the exit code of the ended process."""
        return self._process.wait(_END_S)

    def close(self) -> None:
        """Close the input, on which the process ends."""
        with suppress(BrokenPipeError):
            self._input.close()

    def reap(self) -> None:
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S)
        self.lines.close()


def needed(slices: Iterable[Slice], done: Done) -> dict[int, tuple[int, int]]:
    """Return first offset and end of what is still to be read, by partition."""
    return {one.partition: (one.first, one.end) for one in remaining_slices(slices, done)}


def workers_by_default() -> int:
    """Return the number of cores that this process may use, at most WORKERS_MAX."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, WORKERS_MAX)


def _error(line: dict[str, Any]) -> CutwaterError:
    kind = getattr(errors, str(line.get("error")), MachineError)
    found: CutwaterError = kind(str(line.get("text")))
    return found
