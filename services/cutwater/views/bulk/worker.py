"""A worker process of a bulk load, since reading rows takes a core.

    python -m cutwater.views.bulk.worker FOLDER

It reads task and brokers from two lines of standard input, writes sorted files into the task's folder, reports
each by a line of standard output and waits for a line in return. It ends with standard input. FOLDER is for
process lists.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from rocksdict import Options, SstFileWriter

from cutwater.adapters.fetch.fetcher import Fetcher
from cutwater.adapters.kafka.client_config import Cluster, Security
from cutwater.adapters.runtime.garbage_collection import rare_collections
from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.output.suspects import Suspects
from cutwater.core.state.bulk_load import Done, Task
from cutwater.views.bulk.newest_rows import Into, NewestRows, NewestRowsPort
from cutwater.views.bulk.newest_rows_native import NativeNewestRows
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.store.rocksdb_tuning import failure

_POLL_S = 0.5
_ANSWER_S = 17.0
"""Slightly less than STALL_S, so that another broker is tried before the worker gives up."""
GONE = 1


class Worker:
    """Reader of slices into files. `tell`: receives each file, and returns when the next may be written."""

    def __init__(
        self,
        task: Task,
        cluster: Cluster,
        tell: Callable[[str, Done], None],
        stopping: Callable[[], bool] = lambda: False,
        touched: Suspects | None = None,
    ) -> None:
        """`touched`: gets the storage keys of the rows; None: nobody needs them."""
        self._touched = touched
        self._task = task
        self._tell = tell
        self._stopping = stopping
        self._fetcher = cluster.reader(Fetcher, task.topic, answer_s=_ANSWER_S)
        self._ends = {one.partition: one.end for one in task.slices}
        self._next = {one.partition: one.first for one in task.slices}
        self._gathered: NewestRowsPort = NativeNewestRows(task) if task.native else NewestRows(task)
        self._told = Done({})
        self._files = 0

    def run(self) -> None:
        """Read all slices. Raises Stopped; DivergenceError for a foreign record; UnavailableError after
        `stall_s`."""
        self._fetcher.assign(dict(self._next))
        heard = time.monotonic()
        while left := [at for at, end in self._ends.items() if self._next[at] < end]:
            if self._stopping():
                raise Stopped
            if self._read():
                heard = time.monotonic()
            elif time.monotonic() - heard > self._task.stall_s:
                raise UnavailableError(
                    f"{self._task.topic}: no record arrived for {self._task.stall_s:g} s below the cut "
                    f"{ {at: self._ends[at] for at in left} }; "
                    f"{self._fetcher.trouble or 'check that the brokers run and can be reached'}"
                )
            if self._gathered.full():
                self._write()
        self._write()

    def close(self) -> None:
        """Stop fetching."""
        self._fetcher.close()

    def _read(self) -> bool:
        came = False
        for partition, piece in self._fetcher.take(_POLL_S).items():
            end = self._ends[partition]
            self._gathered.take(partition, piece, end)
            came |= piece.following > self._next[partition]
            self._next[partition] = min(piece.following, end)
            if self._next[partition] == end:
                self._fetcher.pause([partition])
        return came

    def _write(self) -> None:
        self._files += 1
        path = str(Path(self._task.folder) / f"{self._task.slices[0].partition}-{self._files}.sst")
        if not write_sorted(path, self._gathered, self._touched):
            path = ""
        found = self._gathered
        now = Done(dict(self._next), found.rows, found.digest, found.records, found.bytes)
        told, self._told = self._told, now
        more = (now.rows - told.rows, now.digest ^ told.digest, now.records - told.records, now.bytes - told.bytes)
        self._tell(path, Done(now.next, *more))


class _Noting:
    """A writer of sorted rows that also notes their names."""

    def __init__(self, to: Into, touched: Suspects) -> None:
        self._to, self._touched = to, touched

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._to[key] = value
        self._touched.add((key,))


def write_sorted(path: str, gathered: NewestRowsPort, touched: Suspects | None = None) -> bool:
    """Write the held rows as a file for RocksDB; return False, without a file, if there are none.
    `touched`: gets their storage keys. Raises MachineError if the file cannot be written."""
    try:
        writer = SstFileWriter(Options(raw_mode=True))
        writer.open(path)
        if not gathered.write(writer if touched is None else _Noting(writer, touched)):
            Path(path).unlink()
            return False
        writer.finish()
    except CutwaterError:
        raise
    except Exception as error:  # rocksdict raises the bare class
        raise failure(
            f"{path}: {error}. Check that the disk has room and that the folder is writable", error
        ) from None
    return True


def main() -> int:
    """Run the worker; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the rehydrator ends its workers
    told, sys.stdout = sys.stdout, sys.stderr  # output of libraries must not mix with our lines
    task, where = Task.of(sys.stdin.readline()), json.loads(sys.stdin.readline())
    cluster = Cluster(where["bootstrap"], Security(**where["security"]))
    goes_on: queue.Queue[None] = queue.Queue(maxsize=1)
    threading.Thread(target=_listen, args=(goes_on,), name="listen", daemon=True).start()

    def report(path: str, done: Done) -> None:
        _send(told, {"file": path, "done": done.text()})
        goes_on.get()  # the listener ends the process if the parent has ended

    os.nice(task.niceness)
    try:
        with rare_collections():
            Worker(task, cluster, report).run()
    except CutwaterError as error:
        _send(told, {"error": type(error).__name__, "text": str(error)})
        return error.exit_code
    _send(told, {"ended": True})
    return 0


def _listen(goes_on: queue.Queue[None]) -> None:
    for _ in sys.stdin:
        goes_on.put(None)
    os._exit(GONE)


def _send(to: TextIO, told: dict[str, object]) -> None:
    with suppress(BrokenPipeError):
        print(json.dumps(told), file=to, flush=True)


if __name__ == "__main__":
    os._exit(main())  # without cleanup, since the parent waits: files are written, lines are sent
