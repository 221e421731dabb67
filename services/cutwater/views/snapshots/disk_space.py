"""Free-space check for a snapshot's files, so that one that did not fit is not fetched again before it would."""

from __future__ import annotations

import shutil
from pathlib import Path

from cutwater.core.errors import DiskFullError
from cutwater.core.state.snapshot_manifest import Manifest

OPENING_BYTES = 8 << 20
"""What RocksDB writes when it opens the files, approximately."""


class DiskSpaceGuard:
    """Free-space check for the folder in which a snapshot's files are collected."""

    def __init__(self) -> None:
        self._needed_bytes = 0
        """0: the disk was not full yet."""

    def require(self, folder: Path) -> None:
        """Raise DiskFullError while there is less room than the last failed snapshot needs."""
        if not self._needed_bytes:
            return
        free = shutil.disk_usage(folder.parent).free
        if free < self._needed_bytes:
            raise DiskFullError(
                f"{folder}: No space left on device for the files of a snapshot: they need {self._needed_bytes:,} "
                f"bytes, but {free:,} are free."
            )

    def record_full_disk(self, folder: Path, manifest: Manifest) -> None:
        """Record the bytes needed after a full disk, and delete the files."""
        found = {path.name: path.stat().st_nlink for path in folder.iterdir()} if folder.is_dir() else {}
        links = any(count > 1 for count in found.values())
        taken = (one for one in manifest.files if not _is_link(one.name, found.get(one.name), links))
        self._needed_bytes = OPENING_BYTES + sum(one.size for one in taken)
        shutil.rmtree(folder, ignore_errors=True)


def _is_link(name: str, names: int | None, links: bool) -> bool:
    """Return whether a file needs no room. `names`: its number of links, None if it does not exist."""
    return links and name.endswith(".sst") if names is None else names > 1
