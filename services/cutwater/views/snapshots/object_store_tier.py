"""The far tier of a view's snapshots: those of one share in an object store, see core.state.snapshot_manifest."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from cutwater.adapters.object_store import Objects
from cutwater.adapters.runtime.crash_points import reach
from cutwater.core.errors import UnavailableError
from cutwater.core.state.manifest_signature import Keys
from cutwater.core.state.snapshot_manifest import (
    MANIFEST_BYTES_MAX,
    File,
    Manifest,
    Names,
    Policy,
    Stored,
    Unusable,
    object_name,
    pruning,
    sequence_of,
    upload_ms_max,
)
from cutwater.views.snapshots.file_links import linked
from cutwater.views.store.rocksdb_tuning import failure

_STAYS = "; it stays, since no readable snapshot beside it is signed with a key of CUTWATER_SNAPSHOT_KEY"
CHECKS_MAX = 3
"""How often deleted files are uploaded again before the snapshot is given up."""


class NumberTaken(UnavailableError):
    """This snapshot can never be written, however often it is tried; the next milestone's may be."""


class Uploaded(NamedTuple):
    """Result of an upload."""

    manifest: Manifest
    files: int
    """Files written by this upload; the others existed."""
    bytes: int


@dataclass
class Pruned:
    """Result of pruning, or of a dry run."""

    retired: list[int]
    deleted: int = 0
    bytes: int = 0
    forgotten: int = 0
    unreadable: tuple[str, ...] = ()
    """Unreadable manifests with reasons. While there are any, no file is deleted, since they may name it."""


class _Own(NamedTuple):
    object: str
    began_s: float


class SnapshotRepository:
    """The snapshots of one share. One thread uploads, any may read."""

    def __init__(self, objects: Objects, names: Names, grace_ms: int, keys: Keys) -> None:
        self.name = objects.place
        self.names = names
        self._objects = objects
        self._grace_ms = grace_ms
        self._keys = keys
        self._known: dict[Stored, Manifest] = {}
        self._own: dict[str, _Own] = {}
        """By content: files that uploads without a manifest have written."""

    # --- reading

    def sequences(self) -> list[int]:
        """Return the milestones of the kept snapshots, newest first. Raises CutwaterError."""
        return sorted((sequence for _, sequence in self._listed(self.names.manifests)), reverse=True)

    def manifest(self, sequence: int) -> Manifest:
        """Return a snapshot's manifest. Raises Unusable; CutwaterError if the store does not answer."""
        return self._read(self.names.manifest(sequence), sequence)

    def stored(self) -> dict[str, int]:
        """Return the sizes of all stored files."""
        return {one.name.rpartition("/")[2]: one.size for one in self._objects.list_objects(self.names.files)}

    def chunks(self, one: File, stopping: Callable[[], None] = lambda: None) -> Iterator[bytes]:
        """Yield the bytes of a file. Raises Unusable before the end if they do not match its digest."""
        digest = hashlib.sha256()
        try:
            for piece in self._objects.chunks(self.names.file(one.object), one.size):
                stopping()
                digest.update(piece)
                yield piece
        except FileNotFoundError:
            raise Unusable(f"{self.names.file(one.object)} is missing") from None
        if digest.hexdigest() != one.sha256:
            raise Unusable(f"{self.names.file(one.object)} is damaged: its bytes are not those of {one.sha256}")

    def require_size(self, one: File) -> None:
        """Raise Unusable if a file is missing or has another size; a longer one is damaged, too."""
        name = self.names.file(one.object)
        if (size := self._objects.size(name)) != one.size:
            what = "is missing" if size is None else f"is damaged: it has {size:,} bytes, not {one.size:,}"
            raise Unusable(f"{name} {what}")

    def fetch(self, manifest: Manifest, one: File, to: Path, stopping: Callable[[], None]) -> None:
        """Fetch a file of a snapshot and check it. Raises Unusable, CutwaterError, and what `stopping` raises."""
        self.require_size(one)
        if not linked(self._objects.path(self.names.file(one.object)), one, to, stopping):
            self._download(one, to, stopping)
        reach("file-fetched")

    def _download(self, one: File, to: Path, stopping: Callable[[], None]) -> None:
        unfinished = to.with_name(to.name + ".part")
        try:
            with unfinished.open("wb") as file:
                for piece in self.chunks(one, stopping):
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())  # RocksDB takes existing files for durable
            unfinished.replace(to)
        except OSError as error:
            raise failure(f"{unfinished}: {error}. Check that the disk has room.", error) from None

    # --- writing

    def upload(
        self, taken: Manifest, folder: Path, stopping: Callable[[], None], now_ms: Callable[[], int]
    ) -> Uploaded:
        """Upload the files that no kept snapshot has, check all of them, then write the manifest. An existing
        manifest is never overwritten. Raises CutwaterError, and what `stopping` raises; then there is no
        manifest, and the next try continues with the uploaded files."""
        began_s = time.monotonic()
        known = {one.sha256: one.object for manifest in self._live()[0] for one in manifest.files}
        self._forget_old(began_s)
        written: list[File] = []
        files = [self._place_file(one, known, folder, began_s, written, stopping) for one in taken.files]
        reach("files-uploaded")
        files = self._looked_at(files, folder, began_s, written, stopping)
        manifest = replace(taken, files=tuple(files), created_ms=now_ms())
        self._require_young(files, began_s)
        self._require_not_retired(manifest.sequence)
        data = manifest.encode(self._keys, self.names.folder)
        if not self._objects.put_new(self.names.manifest(manifest.sequence), data):
            manifest = self.manifest_of_another(manifest)
        reach("manifest-written")
        self._own.clear()
        return Uploaded(manifest, len(written), sum(one.size for one in written))

    def _require_not_retired(self, sequence: int) -> None:
        """Raise NumberTaken if the sequence is retired, since that manifest protects its files."""
        name = self.names.retired_manifest(sequence)
        if self._objects.size(name) is not None:
            raise NumberTaken(
                f"{self.name}: the snapshot of sequence {sequence} was retired by another owner ({name}), so it "
                "is not written again. The next milestone gets its own"
            )

    def manifest_of_another(self, ours: Manifest) -> Manifest:
        """Return the milestone's existing manifest: another owner's, or ours if the answer was lost."""
        try:
            found = self.manifest(ours.sequence)
            if found.record != ours.record:
                raise Unusable("it is of another commit stream: were the job's topics recreated?")
            return found
        except Unusable as wrong:
            raise NumberTaken(
                f"{self.name}: {self.names.manifest(ours.sequence)} exists but cannot be used ({wrong}). It is "
                "never overwritten: the next milestone gets its own"
            ) from None

    def _place_file(
        self,
        one: File,
        known: dict[str, str],
        folder: Path,
        began_s: float,
        written: list[File],
        stopping: Callable[[], None],
    ) -> File:
        if object_ := known.get(one.sha256):
            return one._replace(object=object_)
        if own := self._own.get(one.sha256):
            return one._replace(object=own.object)
        stopping()
        self._require_young((), began_s)
        placed = one._replace(object=object_name(one.sha256, uuid.uuid4().hex[:8]))
        self._objects.put_file(self.names.file(placed.object), folder / one.name)
        self._own[one.sha256] = _Own(placed.object, began_s)
        written.append(placed)
        reach("file-uploaded")
        return placed

    def _looked_at(
        self,
        files: list[File],
        folder: Path,
        began_s: float,
        written: list[File],
        stopping: Callable[[], None],
    ) -> list[File]:
        """Check all files right before the manifest is written; upload missing ones again, by another name."""
        for _ in range(CHECKS_MAX):
            there = self.stored()
            gone = {one.sha256 for one in files if there.get(one.object) != one.size}
            if not gone:
                return files
            for sha256 in gone:
                self._own.pop(sha256, None)
            files = [
                self._place_file(one, {}, folder, began_s, written, stopping) if one.sha256 in gone else one
                for one in files
            ]
        raise UnavailableError(
            f"{self.name}: files of {self.names.files} disappear during the upload. Check whether something else "
            "deletes there, and whether CUTWATER_SNAPSHOT_GRACE_MS is shorter than an upload"
        )

    def _forget_old(self, now_s: float) -> None:
        """Forget files of interrupted uploads that have become garbage."""
        oldest_s = now_s - upload_ms_max(self._grace_ms) / 2000
        self._own = {sha256: own for sha256, own in self._own.items() if own.began_s > oldest_s}

    def _require_young(self, files: Sequence[File], began_s: float) -> None:
        mine = {own.object: own.began_s for own in self._own.values()}
        began_s = min([began_s, *(mine[one.object] for one in files if one.object in mine)])
        if (time.monotonic() - began_s) * 1000 > upload_ms_max(self._grace_ms):
            self._own.clear()
            raise UnavailableError(
                f"{self.name}: an upload took longer than half of CUTWATER_SNAPSHOT_GRACE_MS ({self._grace_ms}), "
                "and was given up because its files may be deleted. Make the grace period longer"
            )

    # --- retention

    def prune(
        self,
        policy: Policy,
        now_ms: int,
        dry_run: bool = False,
        drop_unreadable: bool = False,
        needed: frozenset[int] = frozenset(),
    ) -> Pruned:
        """Retire what the retention does not keep, and delete unnamed files. Raises CutwaterError.
        `drop_unreadable`: delete unreadable manifests; with signing keys only beside a readable live one, so
        that a wrong key does not cost every snapshot. `needed`: milestones whose snapshots are kept in any
        case."""
        live, wrong = self._live()
        retired, wrong_too = self._manifests(self.names.retired, anew=True)
        unreadable = (*wrong, *wrong_too)
        dropped = [one.partition(": ")[0] for one in unreadable if drop_unreadable and (live or not self._keys)]
        if drop_unreadable and not dropped:
            unreadable = tuple(f"{one}{_STAYS}" for one in unreadable)
        files = self._objects.list_objects(self.names.files)
        plan = pruning(live, retired, files, policy, now_ms, self._grace_ms, needed)
        delete, forget = ([], []) if unreadable else (plan.delete, plan.forget)
        if not dry_run:
            bodies = {one.sequence: one for one in live}
            for sequence in plan.retire:
                self._retire(bodies[sequence])
            for one in delete:
                self._objects.delete(one.name)
            for sequence in forget:
                self._forget(next(two for two in retired if two[1].sequence == sequence))
            for name in dropped:
                self._objects.delete(name)
            self._objects.delete_unfinished(self.names.files, now_ms - self._grace_ms)
        return Pruned(plan.retire, len(delete), sum(one.size for one in delete), len(forget), unreadable)

    def _retire(self, planned: Manifest) -> None:
        """Copy the manifest to the retired ones, then delete it, so that a reader of both lists sees it at
        least once. The manifest is read again before each step, in case another owner has replaced it. A short
        race remains, since object stores have no conditional delete."""
        name = self.names.manifest(planned.sequence)
        if (data := self._unchanged_bytes(name, planned)) is None:
            return
        self._objects.put(self.names.retired_manifest(planned.sequence), data)  # keeps its signature
        reach("manifest-retired")
        if self._unchanged_bytes(name, planned) is not None:
            self._objects.delete(name)

    def _forget(self, planned: tuple[Stored, Manifest]) -> None:
        """Delete a retired manifest, unless an owner has retired it again since it was listed."""
        at, manifest = planned
        listed = [one for one, _ in self._listed(self.names.retired)]
        if at in listed and self._unchanged_bytes(at.name, manifest) is not None:
            self._objects.delete(at.name)

    def _unchanged_bytes(self, name: str, planned: Manifest) -> bytes | None:
        """Return a manifest's bytes if it is unchanged since the plan was made."""
        try:
            data = self._data(name)
            return data if self._decoded(name, planned.sequence, data) == planned else None
        except Unusable:
            return None

    # --- manifests

    def _live(self) -> tuple[list[Manifest], list[str]]:
        found, wrong = self._manifests(self.names.manifests)
        return [manifest for _, manifest in found], wrong

    def _manifests(self, prefix: str, anew: bool = False) -> tuple[list[tuple[Stored, Manifest]], list[str]]:
        """Return the manifests below a prefix, and the unreadable ones. One that disappears was moved."""
        found, wrong = [], []
        known: dict[Stored, Manifest] = {}
        for at, sequence in self._listed(prefix):
            try:
                known[at] = (None if anew else self._known.get(at)) or self._read(at.name, sequence)
                found.append((at, known[at]))
            except _DeletedManifest:
                continue
            except Unusable as why:
                wrong.append(f"{at.name}: {why}")
        if not anew:
            self._known = known
        return found, wrong

    def _listed(self, prefix: str) -> list[tuple[Stored, int]]:
        found = ((one, sequence_of(one.name)) for one in self._objects.list_objects(prefix))
        return [(one, sequence) for one, sequence in found if sequence is not None]

    def _read(self, name: str, sequence: int) -> Manifest:
        return self._decoded(name, sequence, self._data(name))

    def _data(self, name: str) -> bytes:
        data = self._objects.read(name, MANIFEST_BYTES_MAX)
        if data is None:
            raise _DeletedManifest(f"{name} is missing")
        return data

    def _decoded(self, name: str, sequence: int, data: bytes) -> Manifest:
        manifest = Manifest.decode(data, self._keys, self.names.folder)
        if manifest.sequence != sequence:
            raise Unusable(f"{name} contains the manifest of sequence {manifest.sequence}: it was moved")
        return manifest


class _DeletedManifest(Unusable):
    """Deleted since it was listed."""
