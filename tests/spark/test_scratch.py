"""The working files of a driver's JVM: its own, gone with it, and cleared away when it was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cutwater_spark.tools.scratch import scratch

HOLD = """
import sys
from pathlib import Path
from cutwater_spark.tools.scratch import scratch
folder = scratch(Path(sys.argv[1]))
(folder / "work").write_text("state")
print(folder, flush=True)
sys.stdin.readline()
"""


def hold(base: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a folder of its own, which it has written to."""
    argv = [sys.executable, "-c", HOLD, str(base)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_folders_of_the_dead_are_deleted_and_those_of_the_living_are_not(tmp_path: Path) -> None:
    base = tmp_path / "scratch"
    somebodys = base / "alice"
    somebodys.mkdir(parents=True)
    damaged = base / "driver-without-lock"
    damaged.mkdir()
    killed, of_the_killed = hold(base)
    living, of_the_living = hold(base)
    killed.kill()
    killed.communicate()
    assert (of_the_killed / "work").exists(), "the fault happened: it could not clear up"
    mine = scratch(base)
    assert mine is not None
    assert mine.is_dir()
    assert not of_the_killed.exists()
    assert (of_the_living / "work").exists()
    assert somebodys.is_dir()
    assert damaged.is_dir(), "what cannot be looked at is no obstacle"
    living.communicate("\n")
    assert not of_the_living.exists(), "an orderly end leaves nothing"


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert scratch(tmp_path / "file" / "scratch") is None
