"""Where a driver's JVM keeps what need not outlive it: RocksDB's working files, shuffles, native libraries.

In the system's temporary folder, the default, a JVM that is killed leaves them behind, gigabytes each time.
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


class _Held(NamedTuple):
    folder: Path
    lock: IO[str]
    """While it is open, and locked, the folder is this process's."""

    def delete(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.lock.close()  # only now: what could not be deleted is the next one's


def scratch(base: Path) -> Path | None:
    """A new folder below `base`, deleted as this process ends; what killed processes of this host left is deleted.

    None where nothing can be written. What is not a driver's stays as it is.
    """
    try:
        base.mkdir(parents=True, exist_ok=True)
        with _alone(base / _LOCK):
            left = [held for folder in base.glob(f"{_PREFIX}*") if (held := _of_the_dead(folder)) is not None]
            mine = _new(base)
    except OSError:
        return None
    atexit.register(_end, mine, os.getpid())
    for held in left:
        held.delete()
    return mine.folder


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time: a folder that is not locked yet must not be taken for a dead one's."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _new(base: Path) -> _Held:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    lock = (folder / _LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return _Held(folder, lock)


def _of_the_dead(folder: Path) -> _Held | None:
    """None for a folder whose process lives, or that is somebody else's."""
    try:
        lock = (folder / _LOCK).open("r+")
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return _Held(folder, lock)


def _end(mine: _Held, owner: int) -> None:
    if os.getpid() == owner:  # not in a child that was forked meanwhile
        mine.delete()
