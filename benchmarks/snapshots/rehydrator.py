"""The rehydrator's process with a slow store, and if wanted with snapshots that applying waits for.

Cutwater has no such wait. Here the follower calls the upload's own step in its own thread.

python -m benchmarks.snapshots.rehydrator synchronous|asynchronous MB_PER_S JOBFILE
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cutwater.adapters.object_store import Objects
from cutwater.core.state.backlog import Entry
from cutwater.core.state.snapshot_manifest import File, Manifest
from cutwater.rehydrator import service
from cutwater.views.snapshots.object_store_tier import SnapshotRepository
from cutwater.views.snapshots.scheduler import SnapshotScheduler

SYNCHRONOUS, ASYNCHRONOUS = "synchronous", "asynchronous"
_one_at_a_time = threading.Lock()


def slow_store(bytes_per_s: float) -> None:
    """Let a store's files pass at this rate, by pauses: it takes no CPU of the view's machine."""
    put_file, fetch = Objects.put_file, SnapshotRepository.fetch

    def pause(size: int) -> None:
        with _one_at_a_time:
            time.sleep(size / bytes_per_s)

    def put_slowly(self: Objects, name: str, file: Path) -> None:
        put_file(self, name, file)
        pause(file.stat().st_size)

    def fetch_slowly(
        self: SnapshotRepository, manifest: Manifest, one: File, to: Path, stopping: Callable[[], None]
    ) -> None:
        fetch(self, manifest, one, to, stopping)
        pause(one.size)

    Objects.put_file = put_slowly  # type: ignore[method-assign]
    SnapshotRepository.fetch = fetch_slowly  # type: ignore[method-assign]


def wait_for_uploads() -> None:
    """Let the follower upload each checkpoint before it applies the next milestone."""
    take = SnapshotScheduler._take

    def take_and_upload(self: SnapshotScheduler, at: Entry) -> None:
        take(self, at)
        if self._waiting is not None:
            self._finish(self._waiting)
            self._waiting = None

    def run(self: SnapshotScheduler) -> None:
        self._stop.wait()

    SnapshotScheduler._take = take_and_upload  # type: ignore[method-assign]
    SnapshotScheduler.run = run  # type: ignore[method-assign]


def main() -> int:
    how, rate = sys.argv[1], float(sys.argv[2])
    del sys.argv[1:3]
    slow_store(rate * 1e6)
    if how == SYNCHRONOUS:
        wait_for_uploads()
    return service.main()


if __name__ == "__main__":
    sys.exit(main())
