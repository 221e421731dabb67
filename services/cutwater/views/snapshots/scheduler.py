"""Snapshots of a view: the follower's thread takes a checkpoint between two milestones; another thread does the
rest.

The follower pays for a flush and hard links. The other thread hashes, lists, uploads and prunes, one snapshot at a
time: a checkpoint that could not be uploaded is replaced by the next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.runtime.crash_points import reach
from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import Manifest, Policy, Unusable
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.snapshots.local_tier import Checkpoints, Hashes
from cutwater.views.snapshots.object_store_tier import NumberTaken, Pruned, SnapshotRepository, Uploaded
from cutwater.views.store.store import Store

RETRY_S, RETRY_S_MAX = 5.0, 300.0
"""Pauses between tries of one upload, doubled each time."""
LOOK_S = 0.2
SORTING_S = 600.0
"""The longest that a due snapshot waits for compactions."""
REQUESTS_MAX = 4
"""The most waiting requests: each takes one of the 40 threads that answer reads."""


class SnapshotMetrics(Protocol):
    """Metrics of snapshots."""

    def record_checkpoint(self, milestone: Milestone, seconds: float) -> None: ...

    def uploaded(self, done: Uploaded, seconds: float) -> None: ...

    def pruned(self, done: Pruned) -> None: ...

    def failed(self) -> None: ...

    def record_answer(self, well: bool) -> None: ...


@dataclass(frozen=True)
class SnapshotPlan:
    """Schedule and retention of snapshots."""

    every_ms: int
    policy: Policy
    local: int
    """Checkpoints kept in the near tier."""


@dataclass(frozen=True)
class _TakenCheckpoint:
    entry: Entry
    segment_ms: int
    lower_ms: int | None


class SnapshotScheduler:
    """Snapshots of one view. The follower calls `between`, a thread `run`, any thread `request`."""

    def __init__(
        self,
        job: Job,
        generation: Generation,
        partitions: Partitions | None,
        store: Store,
        near: Checkpoints,
        far: SnapshotRepository,
        plan: SnapshotPlan,
        now_ms: Callable[[], int],
        watched: SnapshotMetrics,
        log: Any,
        needed: Callable[[], frozenset[int]] = frozenset,
    ) -> None:
        """`needed`: returns milestones whose snapshots are kept despite the policy, called before each pruning."""
        self._job = job
        self._needed = needed
        self._generation = generation
        self._partitions = partitions
        self._store = store
        self._near = near
        self._far = far
        self._plan = plan
        self._every_ms = plan.every_ms
        self.size = 0
        """The bytes of the newest uploaded snapshot; 0 before the first upload."""
        self._now_ms = now_ms
        self._watched = watched
        self._log = log
        self._hashes = Hashes()
        self._lock = threading.Lock()
        self._asking = 0
        self._stop = threading.Event()
        self._waiting: _TakenCheckpoint | None = None
        self._busy = False
        self._unanswered = 0
        """The requests that wait for the next answer; `_asking` also counts those that have theirs."""
        self._decided = 0
        """How often `_answer` was set; a request counts only later ones as its own."""
        self._answer: Token | str = ""
        """What became of the requests that waited: the snapshot's milestone, or why none is taken."""
        self._last: Entry | None = None
        self._given_up = ""
        """Why the snapshot of `_last` will never be in the object store."""
        self._due_since_s: float | None = None
        near.trim(plan.local)  # left by a crash or a full disk
        self._next_ms = self._first_ms()

    def request(self, wait_s: float) -> Token:
        """Take a snapshot as soon as possible, at the view's milestone at that time. Return its token. Raises
        UnavailableError if none is taken within `wait_s`; at once if `REQUESTS_MAX` requests are waiting."""
        with self._lock:
            if self._asking >= REQUESTS_MAX:
                raise UnavailableError(f"{REQUESTS_MAX} requests wait for a snapshot already: try again later")
            self._asking += 1
        try:
            return self._requested(wait_s)
        finally:
            with self._lock:
                self._asking -= 1

    def _requested(self, wait_s: float) -> Token:
        with self._lock:
            before = self._decided
            self._unanswered += 1
        until = time.monotonic() + wait_s
        while time.monotonic() < until and not self._stop.is_set():
            with self._lock:
                if self._decided > before:
                    return self._outcome()
            time.sleep(LOOK_S / 10)
        with self._lock:
            if self._decided > before:  # since the last look
                return self._outcome()
            self._unanswered -= 1
            why = "another one is being uploaded" if self._busy else "the view is not at a milestone"
            raise UnavailableError(f"no snapshot was taken within {wait_s:g} s: {why}")

    @property
    def _wanted(self) -> bool:
        return self._unanswered > 0

    def _outcome(self) -> Token:
        if isinstance(self._answer, str):
            raise UnavailableError(self._answer)
        return self._answer

    def maybe_checkpoint(self) -> None:
        """Take a checkpoint if one is due. A failed snapshot stops nothing else."""
        with self._lock:
            due = self._wanted or self._due()
            at = self._store.applied
            if not due or self._busy or at is None or self._store.applying is not None:
                return
            if self._last is not None and self._last.milestone.sequence == at.milestone.sequence:
                self._decide(self._given_up or at.milestone.token)  # a failed upload is retried by itself
                return
            self._take(at)

    def _decide(self, answer: Token | str) -> None:
        """Answer the requests that wait."""
        if self._wanted:
            self._answer, self._unanswered = answer, 0
            self._decided += 1

    def _due(self) -> bool:
        """Return whether a snapshot is due and compaction quiet. After a bulk load RocksDB rewrites every file
        soon. A snapshot taken then would share no file with the next one."""
        if self._now_ms() < self._next_ms:
            self._due_since_s = None
            return False
        now_s = time.monotonic()
        self._due_since_s = self._due_since_s or now_s
        return now_s - self._due_since_s > SORTING_S or not self._store.sorting

    def _take(self, at: Entry) -> None:
        begun_s = time.monotonic()
        try:
            self._near.trim(self._plan.local)
            self._store.checkpoint(self._near.make_room(at.milestone.sequence))
        except (CutwaterError, OSError) as error:
            self._next_ms = self._now_ms() + self._every_ms
            self._decide(f"no snapshot was taken: {error}")
            self._failed("no snapshot was taken", at, error)
            return
        reach("checkpoint-made")
        self._last, self._given_up = at, ""
        self._decide(at.milestone.token)
        self._next_ms = self._now_ms() + self._every_ms
        self._waiting = _TakenCheckpoint(at, self._store.segment_ms, self._store.lower_ms)
        self._watched.record_checkpoint(at.milestone, time.monotonic() - begun_s)

    def stop(self) -> None:
        """End `run` at once, or after the timeout of a request."""
        self._stop.set()

    def run(self) -> None:
        """Upload checkpoints until stopped. Errors are logged and counted, and retried after growing pauses."""
        pause_s, again_s = RETRY_S, 0.0
        tried: _TakenCheckpoint | None = None
        while not self._stop.wait(LOOK_S):
            with self._lock:
                taken = self._waiting
                if taken is not tried:
                    pause_s, again_s = RETRY_S, 0.0
                if taken is None or time.monotonic() < again_s:
                    continue
                self._busy = True
            tried = taken
            try:
                self._finish(taken)
                done = True
            except Stopped:
                return
            except NumberTaken as error:
                done = True
                self._give_up(taken.entry, error)
            except Exception as error:  # following and serving do not depend on snapshots
                done = False
                self._watched.record_answer(False)
                self._failed("the snapshot was not uploaded", taken.entry, error)
            with self._lock:
                self._busy = False
                if done:
                    self._waiting = None
            again_s, pause_s = time.monotonic() + pause_s, min(2 * pause_s, RETRY_S_MAX)

    def _give_up(self, entry: Entry, error: NumberTaken) -> None:
        with self._lock:
            if self._last is entry:
                self._given_up = f"the snapshot of {entry.milestone.token} was given up: {error}"
        self._watched.record_answer(True)
        self._failed("the snapshot is given up", entry, error)

    def _finish(self, taken: _TakenCheckpoint) -> None:
        begun_s, sequence = time.monotonic(), taken.entry.milestone.sequence
        try:
            manifest = self._listed(taken)
        except (CutwaterError, OSError):
            self._near.trim(
                1, but=sequence
            )  # the disk may be full, and each checkpoint keeps old files of the view
            raise
        self._near.trim(self._plan.local, but=sequence)
        done = self._far.upload(manifest, self._near.place(sequence), self._stopping, self._now_ms)
        self.size = manifest.size
        self._watched.record_answer(True)
        self._watched.uploaded(done, time.monotonic() - begun_s)
        self._log.info(
            "snapshot uploaded",
            milestone=str(taken.entry.milestone.token),
            files=len(manifest.files),
            bytes=manifest.size,
            new_files=done.files,
            new_bytes=done.bytes,
            seconds=round(time.monotonic() - begun_s, 3),
        )
        newest = self._far.sequences()[:1]
        if newest and newest[0] > sequence:
            self._log.warning(
                "the object store has newer snapshots: of another owner, or from before the topics were recreated",
                newest=newest[0],
                where=self._far.name,
            )
        self._prune()

    def _listed(self, taken: _TakenCheckpoint) -> Manifest:
        entry = taken.entry
        manifest = Manifest(
            job=self._job.name,
            generation=self._generation,
            partitions=self._partitions,
            sequence=entry.milestone.sequence,
            record=entry.record,
            offset=entry.offset,
            segment_ms=taken.segment_ms,
            schema=crc64(self._job.state_schema).hex(),
            files=tuple(self._hashes.of(self._near.place(entry.milestone.sequence))),
            created_ms=self._now_ms(),
            lower_ms=taken.lower_ms,
        )
        self._near.list_files(manifest)
        return manifest

    def _prune(self) -> None:
        """Prune after a successful upload; errors are only logged."""
        try:
            now_ms, needed = self._now_ms(), self._needed()
            done = self._far.prune(self._plan.policy, now_ms, needed=needed)
        except CutwaterError as error:
            self._log.warning("snapshots were not pruned", error=str(error))
            return
        self._watched.pruned(done)
        for one in done.unreadable:
            self._log.error("no file is deleted while a manifest cannot be read", manifest=one)

    def begin_behind(self, manifest: Manifest, uploaded: bool) -> None:
        """Set the time of the next snapshot after a restore from one, and do not take that one again.
        `uploaded`: the snapshot is in the object store, not only on this disk."""
        with self._lock:
            self._next_ms = self._due_ms(manifest)
            self._last = self._store.applied if uploaded else None

    def set_every(self, every_ms: int) -> None:
        """Change the time between two snapshots, also that until the next one."""
        with self._lock:
            if self._next_ms:  # else the first one is due
                self._next_ms += every_ms - self._every_ms
            self._every_ms = every_ms

    def _first_ms(self) -> int:
        """Return when the first snapshot is due; restarts neither delay it nor take one each time."""
        for sequence in self._near.sequences()[:1]:
            try:
                return self._due_ms(self._near.manifest(sequence))
            except Unusable:
                break
        return 0

    def _due_ms(self, last: Manifest) -> int:
        """Return one interval after the last snapshot, at most one from now if its clock was ahead."""
        return min(last.created_ms, self._now_ms()) + self._plan.every_ms

    def _stopping(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def _failed(self, what: str, at: Entry, error: BaseException) -> None:
        self._watched.failed()
        self._log.error(what, milestone=str(at.milestone.token), error=str(error)[:1000])
