"""The rehydrator's snapshots, built from its settings: the one its view restores, and those it takes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import parents_needed
from cutwater.adapters.topics.recovery_log import record_decision
from cutwater.core.cadence.decisions import Decision
from cutwater.core.cadence.snapshot_cadence import SnapshotCadence
from cutwater.core.job.job import Job
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import Policy
from cutwater.rehydrator.generation.start_report import StartReport
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.snapshots.local_tier import Checkpoints
from cutwater.views.snapshots.observer import SnapshotPace
from cutwater.views.snapshots.repositories import repository_of
from cutwater.views.snapshots.restore import Restorer, stream_check
from cutwater.views.snapshots.scheduler import SnapshotPlan, SnapshotScheduler
from cutwater.views.store.folders import restoring_folder
from cutwater.views.store.store import Store

Prepare = Callable[[Callable[[], bool]], None]


class ViewSnapshots:
    """Both tiers of one view, with the parts that take and restore its snapshots."""

    def __init__(
        self,
        job: Job,
        settings: Settings,
        partitions: Partitions | None,
        store: Store,
        metrics: Metrics,
        log: Any,
        takes: bool = True,
    ) -> None:
        """`takes`: False for a standby, which restores its owner's snapshots.

        A replica of another region takes its own, for a failover, but restores none: a snapshot does not say
        whether the replica's copies are still those it was built from.

        Raises UsageError for an invalid URL; does not connect.
        """
        far = repository_of(settings, job, partitions)
        near, self._far = Checkpoints(store.folder), far
        policy = Policy(settings.snapshot_keep_last, settings.snapshot_keep_hours, settings.snapshot_keep_days)
        # A replica restores none. Its last one shows when the next is due, and is what an upload is retried from.
        # More would only keep the view's old files.
        local = 1 if settings.replica_of else settings.snapshot_keep_local
        plan = SnapshotPlan(settings.snapshot_every_ms, policy, local)
        self._store, self._metrics = store, metrics
        if not takes and store.applied:
            near.remove()  # of an earlier role: their links keep old files
        if takes:
            metrics.takes(settings.snapshot_every_ms)
        view = (job, settings.generation, partitions)
        needed = partial(parents_needed, settings.cluster, job.name, settings.generation)
        self.taking = (
            SnapshotScheduler(*view, store, near, far, plan, now_ms, metrics, log, needed) if takes else None
        )
        self.pace: SnapshotPace | None = None
        """Set if the job has an objective for recovery."""
        if self.taking is not None and job.objectives.recovery_ms is not None:
            cadence = SnapshotCadence(job.objectives.recovery_ms, settings.snapshot_every_ms)
            about = (job.name, settings.generation, settings.cluster, log)

            def decided(decision: Decision) -> None:
                metrics.takes(cadence.every_ms)
                record_decision(*about, decision)

            self.pace = SnapshotPace(cadence, self.taking, decided)
        self.share = far.names.share
        self.restores = not settings.replica_of
        self._restorer = Restorer(*view, (near, far), stream_check(settings.cluster, job), metrics, log)

    def prepare(self, starting: StartReport) -> Prepare:
        """Return the follower's preparation: fill the empty store, and report to the recovery log."""

        def prepare(stopped: Callable[[], bool]) -> None:
            done = self._restorer.restore(self._store, stopped)
            if done is not None:
                starting.restored(done)
                if self.pace is not None:
                    self.pace.restored(done.seconds)
            if done is not None and self.taking is not None:
                self.taking.begin_behind(done.manifest, uploaded=done.tier == self._far.name)
                self._metrics.set_restored_snapshot(done.manifest)
            if self.taking is None:
                self._metrics.record_answer(True)  # it sends no further requests

        return prepare


def clear(store: Store, log: Any) -> None:
    """Remove the local snapshots of a rehydrator that takes no snapshots."""
    near, half_fetched = Checkpoints(store.folder), restoring_folder(store.folder)
    if near.folder.exists() or half_fetched.exists():
        count = near.remove()
        shutil.rmtree(half_fetched, ignore_errors=True)
        log.warning(
            "this rehydrator takes no snapshots: local snapshots are removed",
            folder=str(near.folder),
            snapshots=count,
        )
