"""The folder of a driver JVM's temporary files: RocksDB's working files, shuffles, native libraries.

In the system's temporary folder, the default, a killed JVM would leave gigabytes behind each time.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

_PREFIX, _LOCK = "driver-", "lock"


class _LockedFolder(NamedTuple):
    folder: Path
    lock: IO[str]
    """Open and locked: the folder belongs to this process."""

    def delete(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.lock.close()  # last: the next process deletes what remains


def scratch(base: Path) -> Path | None:
    """Create a folder below `base` that is deleted at exit; delete those of killed processes of this host.

    Return None if `base` is not writable. Only drivers' folders are deleted.
    """
    try:
        base.mkdir(parents=True, exist_ok=True)
        with _alone(base / _LOCK):
            left = [held for folder in base.glob(f"{_PREFIX}*") if (held := _lock_abandoned(folder)) is not None]
            mine = _new(base)
    except OSError:
        return None
    atexit.register(_end, mine, os.getpid())
    for held in left:
        held.delete()
    return mine.folder


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Admit one process at a time: a folder that is not locked yet looks like a dead process's."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _new(base: Path) -> _LockedFolder:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    lock = (folder / _LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return _LockedFolder(folder, lock)


def _lock_abandoned(folder: Path) -> _LockedFolder | None:
    """Lock the folder of a dead process; None if its process lives or it is another user's."""
    try:
        lock = (folder / _LOCK).open("r+")
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return _LockedFolder(folder, lock)


def _end(mine: _LockedFolder, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        mine.delete()
