"""A file of a snapshot that lies in a folder on the same disk: another name of it, not another copy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cutwater.core.state.snapshot_manifest import File, Unusable
from cutwater.views.snapshots.local_tier import sha256_of


def linked(source: Path | None, one: File, to: Path, stopping: Callable[[], None]) -> bool:
    """Is `to` now the same file, checked? False where it has to be copied: another disk, or not ours to link.

    RocksDB writes to a table file once only, and who deletes one takes away a name. Raises Unusable where its
    bytes are others, and what `stopping` does.
    """
    if source is None or not one.name.endswith(".sst"):
        return False
    stopping()
    unfinished = to.with_name(to.name + ".part")
    try:
        unfinished.unlink(missing_ok=True)
        os.link(source, unfinished)
        right = sha256_of(unfinished) == one.sha256
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())  # RocksDB takes the files that it finds for durable
    except OSError:
        unfinished.unlink(missing_ok=True)  # it may be the snapshot's own file: nobody shall write to it
        return False
    if not right:
        unfinished.unlink()
        raise Unusable(f"{source} is damaged: its bytes are not those of {one.sha256}")
    unfinished.replace(to)
    return True
