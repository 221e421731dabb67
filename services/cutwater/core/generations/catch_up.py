"""How fast a candidate comes nearer to the newest milestone, and when it will be there: an estimate.

By two looks at each: the candidate's newest milestone and the one before it; the newest of the commit stream and
the parent, since what it is to reach moves meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

from cutwater.core.generations.candidates import Candidate, events_behind
from cutwater.core.protocol.records import Milestone


class Approach(NamedTuple):
    """Of a candidate that has read less than the newest milestone has."""

    events: int
    """So many are left."""
    reads_per_s: float
    comes_per_s: float
    """Events that the promoted generation has read since, on average."""

    @property
    def left_s(self) -> float | None:
        """None where it comes no nearer."""
        nearer = self.reads_per_s - self.comes_per_s
        return self.events / nearer if nearer > 0 else None

    def __str__(self) -> str:
        left = f"about {self.left_s:,.0f} s left" if self.left_s is not None else "it comes no nearer"
        return f"it reads {self.reads_per_s:,.0f} events/s and {self.comes_per_s:,.0f} come: {left}"


def approach(candidate: Candidate, parent: Milestone, last: Milestone) -> Approach | None:
    """None where nothing is left to read, where it need not get there, or has no two milestones yet."""
    claim = candidate.claim
    if candidate.newest is None or candidate.before is None or claim.rewinds_to or claim.origin:
        return None
    left, reads = events_behind(candidate.newest, last), _per_s(candidate.before, candidate.newest)
    if not left or reads is None:
        return None
    return Approach(left, reads, _per_s(parent, last) or 0.0)


def _per_s(earlier: Milestone, later: Milestone) -> float | None:
    seconds = (later.committed_ms - earlier.committed_ms) / 1000
    return later.source_cut.records_since(earlier.source_cut) / seconds if seconds > 0 else None
