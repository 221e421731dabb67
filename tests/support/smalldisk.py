"""A real file system that is small, and can be filled: what a test of a full disk needs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DISK_BYTES = 24 << 20


class SmallDisk:
    """Mounted at `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, but: int = 0) -> None:
        """Nothing more fits, but so many bytes."""
        with self._filler.open("wb") as filler:
            left = os.statvfs(self.folder)
            os.posix_fallocate(filler.fileno(), 0, left.f_bavail * left.f_frsize - but)

    def make_room(self) -> None:
        self._filler.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """A file system of its own, in memory. A test with one has the mark `needs("mount")`."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        pytest.fail(f"a full disk cannot be tested: this user may not mount one ({done.stderr.strip()}); be root")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], timeout=20, check=True)
