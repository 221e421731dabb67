"""Room on the disk for a snapshot's files: one that did not fit is not fetched again before it would."""

from __future__ import annotations

import shutil
from pathlib import Path

from cutwater.core.errors import DiskFullError
from cutwater.core.state.snapshot_manifest import Manifest

OPENING_BYTES = 8 << 20
"""What RocksDB writes when it opens the files, about."""


class Room:
    """For the folder in which they come together."""

    def __init__(self) -> None:
        self._needed_bytes = 0
        """0: nothing met the end of the disk yet."""

    def require(self, folder: Path) -> None:
        """Raises DiskFullError while there is less room than what did not fit would take."""
        if not self._needed_bytes:
            return
        free = shutil.disk_usage(folder.parent).free
        if free < self._needed_bytes:
            raise DiskFullError(
                f"{folder}: No space left on device for the files of a snapshot: they need {self._needed_bytes:,} "
                f"bytes, and {free:,} are free."
            )

    def give_way(self, folder: Path, manifest: Manifest) -> None:
        """The end of the disk was met: take note of what is needed, and give back what was taken."""
        found = {path.name: path.stat().st_nlink for path in folder.iterdir()} if folder.is_dir() else {}
        links = any(count > 1 for count in found.values())
        taken = (one for one in manifest.files if not _is_link(one.name, found.get(one.name), links))
        self._needed_bytes = OPENING_BYTES + sum(one.size for one in taken)
        shutil.rmtree(folder, ignore_errors=True)


def _is_link(name: str, names: int | None, links: bool) -> bool:
    """Does a file take no room? `names`: how many it has, None while it is not there."""
    return links and name.endswith(".sst") if names is None else names > 1
