"""A process that makes a file longer and longer, for tests of faults."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil


def writing(program: str, file: Path) -> Iterator[psutil.Process]:
    """Run a program that writes the file of its first argument, once it has begun to; it is killed afterwards."""
    with subprocess.Popen([sys.executable, "-c", program, str(file)]) as child:
        wait_for_bytes(file, 1)
        yield psutil.Process(child.pid)
        child.kill()


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def wait_for_bytes(file: Path, count: int) -> None:
    deadline = time.monotonic() + 30
    while size(file) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
