"""The lock that a stack holds on its data folder as long as it runs.

The kernel releases it when the process ends, however it ends. So it tells that a stack runs even if the machine's
clock was set meanwhile, from which the creation time of a process is computed.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cutwater.core.errors import MachineError, UsageError

FILE = "stack.lock"
TRIES, PAUSE_S = 20, 0.05
"""A command that looks whether the lock is held takes it for a moment."""


@contextmanager
def folder_locked(folder: Path, pid: int, started: float) -> Iterator[None]:
    """Hold the lock. `pid`, `started`: the holder, as the stack's file names it.

    Raises UsageError if another process holds it, MachineError if there can be no lock.
    """
    try:
        handle = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MachineError(f"{folder / FILE} cannot be written: {error.strerror or error}") from None
    try:
        _lock(handle, folder)
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps([pid, started]).encode())
        yield
    finally:
        os.close(handle)


def is_holder(folder: Path, pid: int, started: float) -> bool:
    """Return whether this process, which may have ended, holds the folder's lock now."""
    try:
        with open(folder / FILE, "rb") as file:
            if json.loads(file.read()) != [pid, started]:
                return False
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, ValueError):  # no lock, as of a stack of an earlier version
        return False
    return False


def _lock(handle: int, folder: Path) -> None:
    for last in range(TRIES - 1, -1, -1):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not last:
                raise UsageError(
                    f"another 'cutwater up' has just started on {folder}: 'cutwater status' shows it"
                ) from None
            time.sleep(PAUSE_S)
        except OSError as error:
            raise MachineError(
                f"{folder / FILE} cannot be locked ({error.strerror}): set CUTWATER_DATA_DIR to a folder on a "
                f"disk with file locks, as local disks have"
            ) from None
