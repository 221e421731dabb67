"""The folder in which a command builds states: removed at its end, or at the next start if it was killed.

A command holds a lock beside its folder as long as it runs. So several may run at once, also in containers that
share the disk, where process ids tell nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

from cutwater.core.errors import MachineError
from cutwater.views.store.table import locked

TRIES = 3
_LOCK = ".lock"
_ADVICE = "set CUTWATER_DATA_DIR to a folder on a disk with file locks, as local disks have"


@contextmanager
def working_folder(parent: Path) -> Iterator[Path]:
    """Yield an empty folder of this call's own below `parent`. Raises OSError if it cannot be made, MachineError
    on a disk without file locks."""
    remove_left_over(parent)
    own, lock = _claimed(parent)
    with lock:
        own.mkdir()
        try:
            yield own
        finally:
            _remove(own)


def remove_left_over(parent: Path) -> None:
    """Remove the folders of commands that do not run any more."""
    for place in parent.glob(f"*{_LOCK}"):
        with suppress(OSError), locked(place):  # held: its command runs
            _remove(place.with_suffix(""))


def _claimed(parent: Path) -> tuple[Path, IO[bytes]]:
    for _ in range(TRIES):
        own = parent / uuid4().hex
        parent.mkdir(parents=True, exist_ok=True)
        try:
            return own, locked(_lock_of(own))
        except (BlockingIOError, FileNotFoundError):  # another command saw the lock or the empty parent first
            continue
        except OSError as error:
            if not _lock_of(own).exists():  # no file could be made
                raise
            _lock_of(own).unlink()
            raise MachineError(f"no file in {parent} can be locked ({error.strerror}): {_ADVICE}") from None
    raise MachineError(f"no file in {parent} could be locked in {TRIES} tries: {_ADVICE}")


def _remove(own: Path) -> None:
    """The lock goes last: without it nobody would remove the folder."""
    shutil.rmtree(own, ignore_errors=True)
    if not own.exists():
        _lock_of(own).unlink(missing_ok=True)


def _lock_of(own: Path) -> Path:
    return own.with_name(f"{own.name}{_LOCK}")
