"""A parent's state from snapshots of its milestone: found in a store, fetched, proved, and read row by row.

The proof covers the manifest (checksum, milestone), every file (size, SHA-256), and that the files are a complete
view at that milestone. A wrong snapshot is reported by name, and the next one is tried.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.topics.candidates import with_partitions
from cutwater.core.errors import ProtocolError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry
from cutwater.core.state.snapshot_manifest import Manifest, Unusable
from cutwater.core.state.snapshot_set import covering, evicted, refusal, unfit
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.query.pages import Stored
from cutwater.views.query.view import View
from cutwater.views.snapshots.object_store_tier import SnapshotRepository
from cutwater.views.snapshots.repositories import SnapshotRepositories
from cutwater.views.snapshots.snapshot_share import ShareReader, SnapshotShare


class StoredSeeds:
    """Snapshots of one parent milestone in a store."""

    def __init__(self, repositories: SnapshotRepositories | None, job: Job, parent: Milestone, why: str) -> None:
        """`repositories`: None without a store. `parent`: as in its own region. `why`: the problem with its
        changelog, for the error."""
        self._repositories, self._parent, self._why = repositories, parent, why
        self._job = with_partitions(job, len(parent.changelog_cut))
        self._passed_over: dict[str, str] = {}
        """Reasons by share."""

    def plan(self) -> tuple[SnapshotShare, ...]:
        """Return the snapshots that together hold the state, by the store's lists. Raises UsageError with
        reasons if there are none; UnavailableError or MachineError if the store does not answer."""
        if self._repositories is None:
            raise UsageError(refusal(self._parent, self._why, "", {}))
        found = {}
        for repository in self._repositories.below(self._parent.job, str(self._parent.generation)):
            share = repository.names.share
            if share not in self._passed_over and (manifest := self._fitting(repository)) is not None:
                found[share] = (repository, manifest)
        held = {share: manifest.partitions for share, (_, manifest) in found.items()}
        chosen, missing = covering(held, self._job.shards.partitions)
        if missing:
            raise UsageError(refusal(self._parent, self._why, self._repositories.place, self._passed_over, held))
        return tuple(SnapshotShare(*found[one.name], one.partitions) for one in chosen)

    @contextmanager
    def opened(
        self, folder: Path, log: Any, stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[tuple[SnapshotShare, ...], Iterator[Stored]]]:
        """Fetch and check the snapshots; yield them and their rows above the horizon. `folder`: not shared;
        files of a killed or stopped try are reused. Raises as `plan` does; DiskFullError; Stopped, also between
        rows."""
        # The claim has checked that the parent's record is on its stream.
        reader = ShareReader(folder, self._job, lambda *_: True, log, same=_same_record)
        with ExitStack() as held:
            try:
                taken = self.plan()
                while (views := self._views(taken, reader, held, stopped)) is None:
                    taken = self.plan()  # each time without another share
            except UsageError:
                held.close()
                shutil.rmtree(folder, ignore_errors=True)
                raise
            yield taken, self._rows(taken, views, stopped)
        shutil.rmtree(folder, ignore_errors=True)

    def _views(
        self, taken: tuple[SnapshotShare, ...], reader: ShareReader, held: ExitStack, stopped: Callable[[], bool]
    ) -> list[View] | None:
        """Return the views of the snapshots, which `held` closes; None if one is not usable."""
        views = []
        for one in taken:
            try:
                view = reader.open(one, stopped)
                views.append(held.enter_context(closing(view)))
                # Manifests of older versions do not say what was evicted.
                reason = evicted(self._parent, view.rows_lower_ms(self._parent))
            except Unusable as why:
                reason = str(why)
            if reason:
                self._passed_over[one.repository.names.share] = reason
                held.close()
                return None
        return views

    def _fitting(self, repository: SnapshotRepository) -> Manifest | None:
        if self._parent.sequence not in repository.sequences():
            return None
        try:
            manifest = repository.manifest(self._parent.sequence)
            reason = unfit(self._parent, manifest, protocol_records.decode(manifest.record)) or _missing(
                repository, manifest
            )
        except (Unusable, ProtocolError, UsageError) as error:
            reason = str(error)
        if reason:
            self._passed_over[repository.names.share] = reason
            return None
        return manifest

    def _rows(
        self, taken: tuple[SnapshotShare, ...], views: list[View], stopped: Callable[[], bool]
    ) -> Iterator[Stored]:
        for one, view in zip(taken, views, strict=True):
            for row in view.panes(one.part(self._job.shards))[1]:
                if stopped():
                    raise Stopped
                yield row


def _missing(repository: SnapshotRepository, manifest: Manifest) -> str:
    """Return an error for the first missing file, or one of another size; empty if there is none."""
    there = repository.stored()
    for one in manifest.files:
        if there.get(one.object) != one.size:
            return f"{repository.names.file(one.object)} is missing or has another size"
    return ""


def _same_record(applied: Entry, entry: Entry) -> bool:
    """Compare the records only: a replica's entry also has an arrival."""
    return applied.record == entry.record
