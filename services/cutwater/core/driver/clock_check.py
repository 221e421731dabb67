"""Comparison of a driver's clock with the brokers' clocks.

Compaction uses the brokers' clocks, the age of a milestone the driver's. A reader treats the rows below a
milestone's cut as complete while the milestone is younger than the compaction lag less `MARGIN_MS`. So clocks may
differ by `MARGIN_MS`, and each of two processes by half of it in the same direction.
"""

from __future__ import annotations

from cutwater.core.errors import UnavailableError
from cutwater.core.state.backlog import MARGIN_MS

LOOK_MS = 600_000
"""Interval between a driver's clock checks."""


def require_clock(began_ms: int, now_ms: int, appended_ms: int, where: str) -> None:
    """Raise UnavailableError if the clocks differ too much. `began_ms`, `now_ms`: local time before and after the
    record was written. `appended_ms`: the broker's append time."""
    ahead = began_ms - appended_ms if appended_ms < began_ms else min(0, now_ms - appended_ms)
    if abs(ahead) > MARGIN_MS // 2:
        minutes, side = abs(ahead) // 60_000, "ahead of" if ahead > 0 else "behind"
        raise UnavailableError(
            f"this machine's clock is {minutes:,} minutes {side} that of the broker that leads {where}. With such "
            "a clock a milestone could look fresh although compaction has passed it, so no epoch is completed. "
            "Synchronise both clocks by NTP"
        )
