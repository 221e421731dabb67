"""A clock that is moved: by how much, and back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from cutwater.adapters.runtime.clock import SHIFT_VARIABLE
from cutwater.core.chaos.plan import CLOCK, Fault
from cutwater.core.errors import UsageError
from cutwater.local.chaos.moved_clock import move_clock
from cutwater.local.chaos.span import Span
from cutwater.local.stack.stack import CLOCKS, Stack

TELLER = """
import sys, time
from cutwater.adapters.runtime.clock import now_ms
with open(sys.argv[1], "a") as file:
    while True:
        print(now_ms() - time.time_ns() // 1_000_000, file=file, flush=True)
        time.sleep(0.02)
"""
"""Writes down how far its clock is off, again and again."""
SLACK_MS = 60_000
"""Between two looks at two clocks, on a machine with much else to do."""


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "seen"


def start(seen: Path, **env: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", TELLER, str(seen)], env={**os.environ, **env})
    deadline = time.monotonic() + 60
    while not seen.exists() or not seen.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


@pytest.fixture
def teller(seen: Path, tmp_path: Path) -> Iterator[psutil.Process]:
    with start(seen, **{SHIFT_VARIABLE: str(tmp_path / "clocks" / "teller")}) as process:
        yield psutil.Process(process.pid)
        process.kill()


def make(process: psutil.Process, fault: Fault) -> int:
    return move_clock(fault, lambda: [process], Span(time.monotonic() + fault.for_s, threading.Event()))


def shifts(seen: Path) -> list[int]:
    return [int(line) for line in seen.read_text().splitlines()]


def test_a_clock_jumps_and_comes_back(teller: psutil.Process, seen: Path) -> None:
    assert make(teller, Fault(CLOCK, "watch", 0, 1.0, -7_200.0)) == 1
    time.sleep(0.5)
    found = shifts(seen)
    assert abs(found[0]) <= SLACK_MS
    assert abs(found[-1]) <= SLACK_MS
    assert any(abs(one + 7_200_000) <= SLACK_MS for one in found)
    assert all(abs(one) <= SLACK_MS or abs(one + 7_200_000) <= SLACK_MS for one in found), "nothing between"


def test_a_clock_that_drifts_goes_there_evenly(teller: psutil.Process, seen: Path) -> None:
    make(teller, Fault(CLOCK, "watch", 0, 2.0, 36_000.0, gradual=True))
    found = shifts(seen)
    moved = [one for one in found if one > SLACK_MS]
    assert len({one // 600_000 for one in moved}) > 2, "several steps"
    assert all(later >= earlier - SLACK_MS for earlier, later in pairwise(moved)), "never back"
    assert max(moved) <= 36_000_000 + SLACK_MS


def test_a_stack_without_movable_clocks_is_no_result(seen: Path) -> None:
    with start(seen) as process:
        with pytest.raises(UsageError, match="cutwater up --movable-clocks"):
            make(psutil.Process(process.pid), Fault(CLOCK, "watch", 0, 0.1, 5))
        process.kill()


def test_a_new_stack_begins_with_the_machines_clock(tmp_path: Path) -> None:
    """A `cutwater chaos` that was killed could not move it back."""
    stack, file = Stack.__new__(Stack), tmp_path / CLOCKS / "cutwater.watch"
    stack.data_dir, stack._movable_clocks = tmp_path, True
    file.parent.mkdir()
    file.write_text("-1200000")
    assert stack._clock_of("cutwater.watch") == {SHIFT_VARIABLE: str(file)}
    assert not file.exists()
