"""One of the snapshots that together are the state of a milestone: fetched, checked, and opened as a view."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.job.shards import ShardMap
from cutwater.core.state.backlog import Entry
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import File, Manifest, Unusable
from cutwater.views.query.pages import Part
from cutwater.views.query.view import View
from cutwater.views.snapshots.object_store_tier import SnapshotRepository
from cutwater.views.snapshots.restore import Restorer
from cutwater.views.store.store import Store


class SnapshotShare(NamedTuple):
    """A snapshot and the partitions that are read from it."""

    repository: SnapshotRepository
    manifest: Manifest
    partitions: Partitions

    @property
    def name(self) -> str:
        """Milestone and share, for people."""
        return f"{self.manifest.generation}:{self.manifest.sequence} ({self.repository.names.share})"

    def part(self, shards: ShardMap) -> Part:
        """Return the part of the rows to read: a partition that two snapshots hold is read from one."""
        return Part(
            shards=frozenset(shard for number in self.partitions for shard in shards.shards_of_partition(number))
        )


class ShareReader:
    """Opens snapshots, those of each share in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        job: Job,
        on_stream: Callable[[Entry, Callable[[], bool]], bool],
        log: Any,
        same: Callable[[Entry, Entry], bool] = eq,
    ) -> None:
        """`folder`: not shared. `on_stream` and `same`: as for `Restorer`."""
        self._folder, self._job, self._log = folder, job, log
        self._on_stream, self._same = on_stream, same

    def open(self, share: SnapshotShare, stopped: Callable[[], bool] = lambda: False) -> View:
        """Return the snapshot as a view; the caller closes it.

        Files of a killed or stopped try are reused; those of another milestone are deleted. Raises Unusable for a
        damaged snapshot, UnavailableError if the store or the brokers do not answer, DiskFullError, Stopped.
        """
        store = self._store(share)
        if store.applied is not None and store.applied.record != share.manifest.record:
            store.close()
            shutil.rmtree(store.folder)
            store = self._store(share)
        try:
            if store.applied is None:
                self._fetch(share, store, stopped)
            return View(store, self._job)
        except BaseException:
            store.close()
            raise

    def _store(self, share: SnapshotShare) -> Store:
        manifest = share.manifest
        place = self._folder / share.repository.names.share
        return Store(place, self._job, manifest.generation, partitions=manifest.partitions)

    def _fetch(self, share: SnapshotShare, store: Store, stopped: Callable[[], bool]) -> None:
        problem, manifest = _Problem(), share.manifest
        restorer = Restorer(
            self._job,
            manifest.generation,
            manifest.partitions,
            (_OnlyTier(share),),
            self._on_stream,
            problem,
            self._log,
            self._same,
        )
        if restorer.restore(store, stopped) is not None:
            return
        if problem.reason and not problem.away:
            raise Unusable(problem.reason)
        raise UnavailableError(
            f"{share.name} was not fetched whole: {share.repository.name}, or the brokers of its commit stream, "
            "did not answer; the log says which"
        )


class _OnlyTier:
    """One snapshot of a repository. Implements `views.snapshots.restore.Tier`."""

    def __init__(self, share: SnapshotShare) -> None:
        self.name = share.repository.name
        self._share = share

    def sequences(self) -> list[int]:
        return [self._share.manifest.sequence]

    def manifest(self, _sequence: int) -> Manifest:
        return self._share.manifest

    def fetch(self, manifest: Manifest, one: File, to: Path, stopping: Callable[[], None]) -> None:
        self._share.repository.fetch(manifest, one, to, stopping)


class _Problem:
    """Keeps why a snapshot is not usable, and whether its store was away: then nothing is proved."""

    def __init__(self) -> None:
        self.reason = ""
        self.away = False

    def restored(self, manifest: Manifest, seconds: float) -> None: ...

    def unusable(self, reason: str) -> None:
        self.reason = reason

    def record_answer(self, well: bool) -> None:
        self.away = self.away or not well
