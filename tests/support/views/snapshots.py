"""A view that takes snapshots and begins from them, for tests: the rehydrator's classes, and what they told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cutwater.adapters.object_store import Objects
from cutwater.core.cadence.decisions import Decision
from cutwater.core.cadence.snapshot_cadence import SnapshotCadence
from cutwater.core.state.manifest_signature import Keys
from cutwater.core.state.snapshot_manifest import UNSIGNED, Manifest, Names, Policy, share_name
from cutwater.views.snapshots.local_tier import Checkpoints
from cutwater.views.snapshots.object_store_tier import Pruned, SnapshotRepository, Uploaded
from cutwater.views.snapshots.observer import SnapshotPace, SnapshottingObserver
from cutwater.views.snapshots.restore import Restored, Restorer, stream_check
from cutwater.views.snapshots.scheduler import SnapshotPlan, SnapshotScheduler
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, Following, Seen, Writing, following, now_ms, until

POINTS = (
    "checkpoint-made",
    "checkpoint-listed",
    "file-uploaded",
    "files-uploaded",
    "manifest-written",
    "manifest-retired",
    "file-fetched",
    "view-dropped",
)
"""The crash points of snapshots: tests/broker/views/snapshots/test_scheduler_crash.py dies at each."""
GRACE_MS = 3_600_000


class Told:
    """Takes the place of log and metrics, and keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []
        self.uploads: list[Uploaded] = []
        self.prunings: list[Pruned] = []
        self.failures = self.damaged = 0
        self.well = True

    def info(self, text: str, **fields: Any) -> None:
        self.lines.append(("info", text, fields))

    def warning(self, text: str, **fields: Any) -> None:
        self.lines.append(("warning", text, fields))

    def error(self, text: str, **fields: Any) -> None:
        self.lines.append(("error", text, fields))

    def errors(self) -> str:
        return "\n".join(f"{text}: {fields}" for level, text, fields in self.lines if level == "error")

    def record_checkpoint(self, _milestone: object, _seconds: float) -> None: ...

    def uploaded(self, done: Uploaded, _seconds: float) -> None:
        self.uploads.append(done)

    def pruned(self, done: Pruned) -> None:
        self.prunings.append(done)

    def failed(self) -> None:
        self.failures += 1

    def record_answer(self, well: bool) -> None:
        self.well = well

    def restored(self, _manifest: Manifest, _seconds: float) -> None: ...

    def unusable(self, _reason: str) -> None:
        self.damaged += 1


class Keeping:
    """What stands beside one view: both tiers, who takes and who restores."""

    def __init__(
        self,
        writing: Writing,
        objects: Objects,
        partitions: frozenset[int] | None = None,
        policy: Policy | None = None,
        near: bool = True,
        target: int | None = None,
        keys: Keys = UNSIGNED,
        recovery_ms: int | None = None,
        **options: Any,
    ) -> None:
        """`recovery_ms`: the job's objective. `options`: more of the follower's."""
        self._recovery_ms = recovery_ms
        self.decisions: list[Decision] = []
        self.told = Told()
        self.restored: Restored | None = None
        self.shelf = shelf_of(writing, objects, partitions, keys)
        self._writing = writing
        self._partitions = partitions
        self._policy = policy or Policy()
        self._near = near
        self._target = target
        self._options = options
        self._thread: threading.Thread | None = None

    def __call__(self, store: Store, seen: Seen, options: dict[str, Any]) -> SnapshottingObserver:
        """For `changelogs.Following`."""
        job, told = self._writing.job, self.told
        self.near = Checkpoints(store.folder)
        view = (job, GENERATION, self._partitions)
        plan = SnapshotPlan(3_600_000, self._policy, 2)
        self.taking = SnapshotScheduler(*view, store, self.near, self.shelf, plan, now_ms, told, told)
        self.taking._next_ms = 1 << 62  # only when a test asks for one
        tiers = (self.near, self.shelf) if self._near else (self.shelf,)
        restorer = Restorer(*view, tiers, stream_check(self._writing.cluster, job), told, told)

        def prepare(stopped: Any) -> None:
            self.restored = restorer.restore(store, stopped, self._target)

        options |= {**self._options, "prepare": prepare}
        self._thread = threading.Thread(target=self.taking.run)
        self._thread.start()
        pace = None
        if self._recovery_ms is not None:
            cadence = SnapshotCadence(self._recovery_ms, plan.every_ms)
            pace = SnapshotPace(cadence, self.taking, self.decisions.append)
        return SnapshottingObserver(seen, self.taking, pace)

    def end(self) -> None:
        self.taking.stop()
        assert self._thread
        self._thread.join(30)
        assert not self._thread.is_alive()

    def snapshot(self) -> Uploaded:
        """Take one now; returns when its manifest is there."""
        before = len(self.told.uploads)
        self.taking.request(20)
        until(lambda: len(self.told.uploads) > before, lambda: f"the upload; told: {self.told.errors()}")
        return self.told.uploads[-1]


def shelf_of(
    writing: Writing, objects: Objects, partitions: frozenset[int] | None = None, keys: Keys = UNSIGNED
) -> SnapshotRepository:
    return SnapshotRepository(
        objects, Names(writing.job.name, str(GENERATION), share_name(partitions)), GRACE_MS, keys
    )


@contextmanager
def keeping(
    writing: Writing, folder: Path, objects: Objects, partitions: frozenset[int] | None = None, **options: Any
) -> Iterator[tuple[Following, Keeping]]:
    """A running view with snapshots in `objects`."""
    clock = options.pop("clock", now_ms)
    kept = Keeping(writing, objects, partitions, **options)
    with following(writing.cluster, writing.job, folder, clock, keeping=kept, partitions=partitions) as view:
        try:
            yield view, kept
        finally:
            kept.end()
