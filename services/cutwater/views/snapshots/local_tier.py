"""The near tier of a view's snapshots: checkpoints on the view's disk, hard links to the view's files.

<generation>.checkpoints/<sequence>/         RocksDB's checkpoint
<generation>.checkpoints/<sequence>.json     its manifest, written last: without it there is no snapshot
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from cutwater.adapters.runtime.crash_points import reach
from cutwater.core.errors import DiskFullError, MachineError
from cutwater.core.state.snapshot_manifest import File, Manifest, Unusable, object_name
from cutwater.views.store.rocksdb_tuning import failure

_HERE = "00000000"
"""Replaces the upload's name."""
_READ_BYTES = 1 << 20
_NO_PART = frozenset({"LOCK", "LOG"})
"""Files that RocksDB recreates when it opens a folder."""

Seen = tuple[str, int, int, int]


class Hashes:
    """SHA-256 of files, computed once: RocksDB never changes a table file, and links share its inode."""

    def __init__(self) -> None:
        self._known: dict[Seen, str] = {}
        self.computed = 0

    def of(self, folder: Path) -> list[File]:
        """Return every file of a checkpoint, by name."""
        known: dict[Seen, str] = {}
        found = []
        for path in sorted(folder.iterdir()):
            if path.name in _NO_PART or not path.is_file():
                continue
            at = path.stat()
            seen = (path.name, at.st_size, at.st_ino, at.st_mtime_ns)
            known[seen] = self._known.get(seen) or self._compute(path)
            found.append(File(path.name, at.st_size, known[seen], object_name(known[seen], _HERE)))
        self._known = known
        return found

    def _compute(self, path: Path) -> str:
        self.computed += 1
        return sha256_of(path)


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()


class Checkpoints:
    """The checkpoints of one view, used only by the process that has the view open."""

    name = "this disk"

    def __init__(self, view_folder: Path) -> None:
        self.folder = view_folder.with_name(f"{view_folder.name}.checkpoints")

    def place(self, sequence: int) -> Path:
        """Return the folder of a milestone's checkpoint."""
        return self.folder / str(sequence)

    def make_room(self, sequence: int) -> Path:
        """Return the folder for a new checkpoint, without old files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._drop(sequence)
        # RocksDB builds a checkpoint in a *.tmp folder, which a crash leaves.
        for left in self.folder.glob("*.tmp"):
            shutil.rmtree(left, ignore_errors=True)
        return self.place(sequence)

    def list_files(self, manifest: Manifest) -> None:
        """Write the checkpoint's manifest, which makes it a snapshot. Raises MachineError."""
        place = self._manifest(manifest.sequence)
        unfinished = place.with_suffix(".unfinished")
        try:
            with unfinished.open("wb") as file:
                file.write(manifest.encode())
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(place)
        except OSError as error:
            raise MachineError(f"{place}: {error}. Check that the disk has room") from None
        reach("checkpoint-listed")

    def sequences(self) -> list[int]:
        """Return the milestones of the snapshots, newest first."""
        found = (path.stem for path in self.folder.glob("*.json"))
        return sorted((int(one) for one in found if one.isdigit()), reverse=True)

    def manifest(self, sequence: int) -> Manifest:
        """Return a snapshot's manifest. Raises Unusable."""
        try:
            return Manifest.decode(self._manifest(sequence).read_bytes())
        except OSError as error:
            raise Unusable(f"the manifest cannot be read: {error.strerror}") from None

    def trim(self, last: int, but: int = 0) -> None:
        """Keep the `last` newest snapshots and that of sequence `but`; delete others and incomplete ones."""
        stay = {*self.sequences()[:last], but}
        for path in list(self.folder.iterdir()) if self.folder.is_dir() else []:
            if path.stem.isdigit() and int(path.stem) not in stay:
                self._drop(int(path.stem))

    def fetch(self, manifest: Manifest, one: File, to: Path, stopping: Callable[[], None]) -> None:
        """Fetch a file of a snapshot and check it. Raises Unusable, DiskFullError, and what `stopping` raises."""
        stopping()
        found = self.place(manifest.sequence) / one.name
        try:
            if found.stat().st_size != one.size or sha256_of(found) != one.sha256:
                raise Unusable(f"{found} is damaged: it does not match the manifest")
            if one.name.endswith(".sst"):
                os.link(found, to)  # RocksDB never writes to an existing table file
            else:
                unfinished = to.with_name(to.name + ".part")
                shutil.copyfile(found, unfinished)
                with unfinished.open("rb") as copy:
                    os.fsync(copy.fileno())
                unfinished.replace(to)
        except FileNotFoundError:
            raise Unusable(f"{found} is missing") from None
        except OSError as error:
            told = f"{found} cannot be fetched: {error}."
            if isinstance(full := failure(told, error), DiskFullError):
                raise full from None
            raise Unusable(told) from None

    def remove(self) -> int:
        """Delete all checkpoints, which keep old files of the view, once snapshots are off. Return how many."""
        count = len(self.sequences())
        shutil.rmtree(self.folder, ignore_errors=True)
        return count

    def _manifest(self, sequence: int) -> Path:
        return self.folder / f"{sequence}.json"

    def _drop(self, sequence: int) -> None:
        self._manifest(sequence).unlink(missing_ok=True)  # first: a checkpoint with a manifest is complete
        shutil.rmtree(self.place(sequence), ignore_errors=True)
