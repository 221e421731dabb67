"""Where a JVM of Spark keeps what need not outlive it: RocksDB's working files, shuffles, native libraries.

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
from typing import IO

_LOCK = "lock"


def scratch(base: Path) -> Path | None:
    """A new folder below `base` that is this process's own until it ends; those of dead processes are deleted.

    None where nothing can be written there.
    """
    try:
        base.mkdir(parents=True, exist_ok=True)
        with _locked(base / _LOCK):
            for left in base.iterdir():
                _delete_if_dead(left)
            return _made(base)
    except OSError:
        return None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One at a time: a folder that is not locked yet must not be taken for a dead process's."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _made(base: Path) -> Path:
    folder = Path(tempfile.mkdtemp(dir=base))
    held = (folder / _LOCK).open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    atexit.register(_end, folder, held, os.getpid())
    return folder


def _end(folder: Path, held: IO[str], owner: int) -> None:
    if os.getpid() == owner:  # not in a child that was forked meanwhile
        shutil.rmtree(folder, ignore_errors=True)
        held.close()  # only now: what could not be deleted is the next one's


def _delete_if_dead(folder: Path) -> None:
    if not folder.is_dir():
        return
    try:
        with (folder / _LOCK).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return  # its process lives
