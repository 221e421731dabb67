"""The clock of a process: the machine's, unless a rehearsal moves it.

`cutwater up --movable-clocks` names a file to each service of its stack, by a variable of the environment. While
the file exists, its number of milliseconds is added to the machine's clock. All of Cutwater's Python reads the
time here and nowhere else, so the process decides nothing by another clock. The clocks of the brokers, of Spark
and of Kafka's client stay as they are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from cutwater.core.errors import UsageError

SHIFT_VARIABLE = "CUTWATER_CLOCK_SHIFT_FILE"
LOOK_S = 0.1
"""The file is read at most so often."""
_LOOPBACK = ("127.0.0.1:", "localhost:", "[::1]:")


class ClockShift:
    """How far a file moves the clock. `path`: None for a clock that stays."""

    def __init__(self, path: Path | None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path, self._monotonic = path, monotonic
        self._next_s, self._ms = float("-inf"), 0

    def ms(self) -> int:
        """Return the shift. 0 without a file, and for one that has no number."""
        if self._path is None:
            return 0
        if self._monotonic() >= self._next_s:
            self._next_s = self._monotonic() + LOOK_S
            self._ms = _number_in(self._path)
        return self._ms


def _number_in(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


_NAMED = os.environ.get(SHIFT_VARIABLE)
_SHIFT = ClockShift(Path(_NAMED) if _NAMED else None)


def now_ms() -> int:
    """Return the process's clock, ms since 1970."""
    return time.time_ns() // 1_000_000 + _SHIFT.ms()


def require_steady_clock(bootstrap: str, shift_file: str | None = _NAMED) -> None:
    """Raise UsageError if a rehearsal may move this clock and a broker is on another machine.

    `bootstrap`: the brokers' addresses, comma separated.
    """
    far = [one for one in bootstrap.split(",") if not one.strip().startswith(_LOOPBACK)]
    if shift_file and far:
        raise UsageError(
            f"{SHIFT_VARIABLE} is set, by which a rehearsal moves a clock, and the broker {far[0].strip()} is "
            "not on this machine. A job that others use keeps its clock: unset the variable"
        )
