"""A stack holds its data folder: no second one starts on it, and it is known to run whatever the clock says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cutwater.core.errors import MachineError, UsageError
from cutwater.local import running_file
from cutwater.local.machine.folder_lock import FILE, folder_locked, is_holder
from support.waits import wait_until
from unit.local.test_running_file import STACK

HOLDS = """
import sys, time
from pathlib import Path
from cutwater.local.machine.folder_lock import folder_locked
with folder_locked(Path(sys.argv[1]), 7, 5.0):
    Path(sys.argv[1], "held").touch()
    time.sleep(600)
"""


def test_two_that_start_at_the_same_moment_are_one_that_starts(tmp_path: Path) -> None:
    """Both have seen that no stack runs; the second is refused before it writes anything."""
    with folder_locked(tmp_path, 7, 5.0):
        assert is_holder(tmp_path, 7, 5.0)
        assert not is_holder(tmp_path, 8, 5.0)
        with (
            pytest.raises(UsageError, match="another 'cutwater up' has just started"),
            folder_locked(tmp_path, 8, 6.0),
        ):
            pass
        assert is_holder(tmp_path, 7, 5.0), "the holder is still named"
    assert not is_holder(tmp_path, 7, 5.0)
    with folder_locked(tmp_path, 8, 6.0):
        assert is_holder(tmp_path, 8, 6.0)


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)])
    try:
        wait_until((tmp_path / "held").exists, "the lock", 30)
        assert is_holder(tmp_path, 7, 5.0)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not is_holder(tmp_path, 7, 5.0)
        assert (tmp_path / FILE).exists()
    finally:
        process.kill()


def test_a_stack_runs_on_when_the_clock_is_set(tmp_path: Path) -> None:
    """The creation time of its process is another one then; `status` and `down` find it all the same."""
    folder = tmp_path / "jobs" / "counts"
    folder.mkdir(parents=True)
    before = 1_000_000.0
    for own in (tmp_path, folder):
        stack = replace(STACK, pid=os.getpid(), started=before, data_dir=str(own))
        stack.write()
        assert running_file.find_at(own) is None, "a process of the same number that began at another time"
        with folder_locked(tmp_path, os.getpid(), before):
            assert running_file.find_at(own) == stack
        assert running_file.find_at(own) is None
        (own / running_file.FILE).unlink()


def test_a_folder_that_is_not_there_has_no_lock(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be written"), folder_locked(tmp_path / "missing", 7, 5.0):
        pass
    assert not is_holder(tmp_path / "missing", 7, 5.0)
