"""The folder of one replay below the data folder, removed at the end; what a killed one has left, at the next."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

FOLDER = "replay"


@contextmanager
def working_folder(data_dir: Path) -> Iterator[Path]:
    """Yield an empty folder of this process's own. Several replays may run at once."""
    parent = data_dir.resolve() / FOLDER
    remove_left_over(parent)
    own = parent / str(os.getpid())
    own.mkdir(parents=True)
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        if parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()


def remove_left_over(parent: Path) -> None:
    """Remove the folders of processes that do not run any more."""
    for one in parent.iterdir() if parent.is_dir() else ():
        if one.name.isdigit() and (int(one.name) == os.getpid() or not psutil.pid_exists(int(one.name))):
            shutil.rmtree(one, ignore_errors=True)
