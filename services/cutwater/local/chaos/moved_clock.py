"""A process's clock that is wrong for a time, by the file that `cutwater up --movable-clocks` has named to it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import psutil

from cutwater.adapters.runtime.clock import SHIFT_VARIABLE
from cutwater.core.chaos.plan import Fault
from cutwater.core.errors import UsageError
from cutwater.local.chaos.span import Find, Span

STEP_S = 0.2


def move_clock(fault: Fault, find: Find, span: Span) -> int:
    """Move the clock by `by_s`, and back when the time is over. Returns how many processes had it.

    Raises UsageError if the processes were started without `--movable-clocks`.
    """
    files = {Path(found): one.pid for one in find() if (found := _shift_file(one))}
    if not files:
        raise UsageError(
            f"'{fault}' cannot be made: this stack's clocks stay. Start it with 'cutwater up --movable-clocks'"
        )
    most, began_s = 0, time.monotonic()
    try:
        while not span.is_over:
            share = min(1.0, (time.monotonic() - began_s) / fault.for_s) if fault.gradual else 1.0
            for file in files:
                _write(file, int(share * fault.by_s * 1_000))
            most = max(most, len(find()))
            span.rest(STEP_S)
    finally:
        for file in files:
            file.unlink(missing_ok=True)
    return most


def _shift_file(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return process.environ().get(SHIFT_VARIABLE, "")
    return ""


def _write(file: Path, shift_ms: int) -> None:
    """Replace the file, so that no reader sees half a number."""
    file.parent.mkdir(exist_ok=True)
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    unfinished.write_text(f"{shift_ms}", encoding="ascii")
    unfinished.replace(file)
