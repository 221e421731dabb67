"""A parent's state from snapshots of its milestone: found in a store, fetched, proved, and read row by row.

The proof covers the manifest (checksum, milestone), every file (size, SHA-256), and that the files are a complete
view at that milestone. A wrong snapshot is reported by name, and the next one is tried.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.topics.candidates import with_partitions
from cutwater.core.errors import ProtocolError, UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import File, Manifest, Unusable
from cutwater.core.state.snapshot_set import covering, evicted, refusal, unfit
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.query.pages import Part, Stored
from cutwater.views.query.view import View
from cutwater.views.snapshots.object_store_tier import SnapshotRepository
from cutwater.views.snapshots.repositories import SnapshotRepositories
from cutwater.views.snapshots.restore import Restorer
from cutwater.views.store.store import Store


class Taking(NamedTuple):
    """A snapshot and the partitions to read from it."""

    shelf: SnapshotRepository
    manifest: Manifest
    partitions: Partitions

    @property
    def name(self) -> str:
        """Milestone and share, for people."""
        return f"{self.manifest.generation}:{self.manifest.sequence} ({self.shelf.names.share})"


class StoredSeeds:
    """Snapshots of one parent milestone in a store."""

    def __init__(self, shelves: SnapshotRepositories | None, job: Job, parent: Milestone, why: str) -> None:
        """`shelves`: None without a store. `parent`: as in its own region. `why`: the problem with its
        changelog, for the error."""
        self._shelves, self._parent, self._why = shelves, parent, why
        self._job = with_partitions(job, len(parent.changelog_cut))
        self._passed_over: dict[str, str] = {}
        """Reasons by share."""

    def plan(self) -> tuple[Taking, ...]:
        """Return the snapshots that together hold the state, by the store's lists. Raises UsageError with
        reasons if there are none; UnavailableError or MachineError if the store does not answer."""
        if self._shelves is None:
            raise UsageError(refusal(self._parent, self._why, "", {}))
        found = {}
        for shelf in self._shelves.below(self._parent.job, str(self._parent.generation)):
            share = shelf.names.share
            if share not in self._passed_over and (manifest := self._fitting(shelf)) is not None:
                found[share] = (shelf, manifest)
        held = {share: manifest.partitions for share, (_, manifest) in found.items()}
        chosen = covering(held, self._job.shards.partitions)
        if not chosen:
            raise UsageError(refusal(self._parent, self._why, self._shelves.place, self._passed_over, held))
        return tuple(Taking(*found[one.name], one.partitions) for one in chosen)

    @contextmanager
    def opened(
        self, folder: Path, log: Any, stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[tuple[Taking, ...], Iterator[Stored]]]:
        """Fetch and check the snapshots; yield them and their rows above the horizon. `folder`: not shared;
        files of a killed or stopped try are reused. Raises as `plan` does; DiskFullError; Stopped, also between
        rows."""
        try:
            taken = self.plan()
            while not all(self._bring_to_milestone(one, folder, log, stopped) for one in taken):
                taken = self.plan()  # each time without another share
        except UsageError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        yield taken, self._rows(taken, folder, stopped)
        shutil.rmtree(folder, ignore_errors=True)

    def _fitting(self, shelf: SnapshotRepository) -> Manifest | None:
        if self._parent.sequence not in shelf.sequences():
            return None
        try:
            manifest = shelf.manifest(self._parent.sequence)
            reason = unfit(self._parent, manifest, protocol_records.decode(manifest.record)) or _missing(
                shelf, manifest
            )
        except (Unusable, ProtocolError, UsageError) as error:
            reason = str(error)
        if reason:
            self._passed_over[shelf.names.share] = reason
            return None
        return manifest

    def _bring_to_milestone(self, one: Taking, folder: Path, log: Any, stopped: Callable[[], bool]) -> bool:
        heard = _Heard()
        store = self._store(one, folder)
        if store.applied is not None and store.applied.record != one.manifest.record:
            # Left by a try for another milestone.
            store.close()
            shutil.rmtree(store.folder)
            store = self._store(one, folder)
        try:
            if store.applied is None:
                self._fetch(one, store, heard, log, stopped)
            reason = heard.reason or evicted(self._parent, store.lower_ms)
        finally:
            store.close()
        if reason:
            self._passed_over[one.shelf.names.share] = reason
        return not reason

    def _fetch(self, one: Taking, store: Store, heard: _Heard, log: Any, stopped: Callable[[], bool]) -> None:
        of = (self._job, one.manifest.generation, one.manifest.partitions)
        # The claim has checked that the parent's record is on its stream.
        restorer = Restorer(*of, (_Only(one),), lambda *_: True, heard, log, same=_same_record)
        if restorer.restore(store, stopped) is None and not heard.reason:
            raise UnavailableError(f"{one.shelf.name} did not deliver all of {one.name}: try again")

    def _store(self, one: Taking, folder: Path) -> Store:
        manifest = one.manifest
        place = folder / one.shelf.names.share
        return Store(place, self._job, manifest.generation, partitions=manifest.partitions)

    def _rows(self, taken: tuple[Taking, ...], folder: Path, stopped: Callable[[], bool]) -> Iterator[Stored]:
        for one in taken:
            view = View(self._store(one, folder), self._job)
            try:
                shards = {
                    shard for number in one.partitions for shard in self._job.shards.shards_of_partition(number)
                }
                for row in view.panes(Part(shards=shards))[1]:
                    if stopped():
                        raise Stopped
                    yield row
            finally:
                view.close()


class _Only:
    """One snapshot of a repository. Implements `views.snapshots.restore.Tier`."""

    def __init__(self, one: Taking) -> None:
        self.name = one.shelf.name
        self._one = one

    def sequences(self) -> list[int]:
        return [self._one.manifest.sequence]

    def manifest(self, _sequence: int) -> Manifest:
        return self._one.manifest

    def fetch(self, manifest: Manifest, one: File, to: Path, stopping: Callable[[], None]) -> None:
        self._one.shelf.fetch(manifest, one, to, stopping)


class _Heard:
    """Keeps the reason why a snapshot is not usable."""

    def __init__(self) -> None:
        self.reason = ""

    def restored(self, manifest: Manifest, seconds: float) -> None: ...

    def unusable(self, reason: str) -> None:
        self.reason = reason

    def record_answer(self, well: bool) -> None: ...


def _missing(shelf: SnapshotRepository, manifest: Manifest) -> str:
    """Return an error for the first missing file, or one of another size; empty if there is none."""
    there = shelf.stored()
    for one in manifest.files:
        if there.get(one.object) != one.size:
            return f"{shelf.names.file(one.object)} is missing or has another size"
    return ""


def _same_record(applied: Entry, entry: Entry) -> bool:
    """Compare the records only: a replica's entry also has an arrival."""
    return applied.record == entry.record
