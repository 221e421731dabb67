"""Do a driver's clock and the brokers' agree?

Compaction goes by theirs, and how fresh a milestone is by the driver's.

A reader takes rows below a milestone's cut for whole while the milestone is younger than the compaction lag, less
`MARGIN_MS`: by so much may the clocks differ, and both of two processes in the same direction by half of it.
"""

from __future__ import annotations

from cutwater.core.errors import UnavailableError
from cutwater.core.state.backlog import MARGIN_MS

LOOK_MS = 600_000
"""So often a driver compares its clock."""


def require_clock(began_ms: int, now_ms: int, appended_ms: int, where: str) -> None:
    """Raise UnavailableError where a record could not have been appended between these times of ours.

    `began_ms`, `now_ms`: before it was written, and after, by our clock. `appended_ms`: by the broker's.
    """
    ahead = began_ms - appended_ms if appended_ms < began_ms else min(0, now_ms - appended_ms)
    if abs(ahead) > MARGIN_MS // 2:
        minutes, side = abs(ahead) // 60_000, "ahead of" if ahead > 0 else "behind"
        raise UnavailableError(
            f"this machine's clock is {minutes:,} minutes {side} that of the broker that leads {where}: set both "
            "by NTP. By such a clock a milestone could look fresh that compaction has overtaken already; no epoch "
            "is told until they agree"
        )
