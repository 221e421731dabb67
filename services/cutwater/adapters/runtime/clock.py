"""The clock of a process."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the process's clock, ms since 1970."""
    return time.time_ns() // 1_000_000
