"""The reader of Spark's state. It runs a separate process, since services never import Spark."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from cutwater.core.checks.state_comparison import RowName
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.records import Milestone
from cutwater.verify.scratch import ScratchTable
from cutwater.views.changelog.record_reader import KeyReader

SPARK_S_MAX = 600.0


def fill_from_state(
    job_file: Path, milestone: Milestone, folder: Path, rows_max: int, env: Mapping[str, str], table: ScratchTable
) -> None:
    """Fill `table` with the rows of Spark's state store after the milestone's epoch.

    Raises UnavailableError if the program fails or takes more than 600 s. Spark keeps only the newest epochs.
    """
    rows = folder / "state"
    log = folder / "state.log"
    arguments = [str(job_file), str(milestone.epoch), str(rows), str(rows_max + 1)]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "cutwater_spark.tools.state", *arguments],
            env={**os.environ, **env, "CUTWATER_GENERATION": str(milestone.generation)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        code = process.wait(SPARK_S_MAX)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        _end(process)
    if code != 0:
        raise UnavailableError(f"Spark's state at epoch {milestone.epoch} cannot be read: {_reason(log)}")
    keys = KeyReader()
    for part in sorted(rows.glob("part-*")):
        with part.open("rb") as lines:
            for line in lines:
                key, value = line.split()
                window = keys.window(base64.b64decode(key))
                table.put(RowName(*window), base64.b64decode(value))
    table.flush()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole session, since the JVM is a child of the program."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def _reason(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    said = [line for line in lines if line.startswith("cutwater state:")]
    return (said or lines or ["it printed nothing"])[-1][:1_000]
