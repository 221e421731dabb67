"""Hard links to a snapshot's files in a folder on the same disk, instead of copies."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cutwater.core.state.snapshot_manifest import File, Unusable
from cutwater.views.snapshots.local_tier import sha256_of


def linked(source: Path | None, one: File, to: Path, stopping: Callable[[], None]) -> bool:
    """Link `to` to the file and check it. Return False if it must be copied: another disk, or no permission to
    link. RocksDB writes a table file only once, and deleting one removes only a link. Raises Unusable if the
    bytes differ, and what `stopping` raises."""
    if source is None or not one.name.endswith(".sst"):
        return False
    stopping()
    unfinished = to.with_name(to.name + ".part")
    try:
        unfinished.unlink(missing_ok=True)
        os.link(source, unfinished)
        right = sha256_of(unfinished) == one.sha256
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())  # RocksDB takes existing files for durable
    except OSError:
        unfinished.unlink(missing_ok=True)  # it may be the snapshot's own file, which must not be written to
        return False
    if not right:
        unfinished.unlink()
        raise Unusable(f"{source} is damaged: its bytes are not those of {one.sha256}")
    unfinished.replace(to)
    return True
