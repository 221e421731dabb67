"""A server of somebody else's as a child process, there for as long as a block runs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

START_SECONDS_MAX = 120.0


@contextmanager
def serving(
    name: str, command: Sequence[Any], answers: Callable[[], bool], log: Path, cwd: Path | None = None
) -> Iterator[None]:
    """Started, and asked until it answers; no connection yet is no answer."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=cwd)
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not _asked(answers):
            assert process.poll() is None, f"{name} ended; log in {log}"
            assert time.monotonic() < deadline, f"{name} does not answer; log in {log}"
            time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait(30)


def _asked(answers: Callable[[], bool]) -> bool:
    try:
        return answers()
    except httpx.HTTPError:
        return False
