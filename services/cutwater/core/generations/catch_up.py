"""Estimate of a candidate's catch-up with the newest milestone: lag, rates and remaining time.

The candidate's rate is measured between its two newest milestones, the promoted generation's between the parent
and the newest milestone of the commit stream, since the target moves meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

from cutwater.core.generations.candidates import Candidate, events_behind
from cutwater.core.protocol.records import Milestone


class Approach(NamedTuple):
    """The progress of a candidate that has not reached the newest milestone."""

    events: int
    """Events left to read."""
    reads_per_s: float
    comes_per_s: float
    """Average rate of events that the promoted generation has read since the parent."""

    @property
    def left_s(self) -> float | None:
        """Remaining time; None if the candidate does not catch up."""
        nearer = self.reads_per_s - self.comes_per_s
        return self.events / nearer if nearer > 0 else None

    def __str__(self) -> str:
        left = f"about {self.left_s:,.0f} s left" if self.left_s is not None else "it does not catch up"
        return f"it reads {self.reads_per_s:,.0f} events/s and {self.comes_per_s:,.0f} arrive: {left}"


def approach(candidate: Candidate, parent: Milestone, last: Milestone) -> Approach | None:
    """Return the progress; None if nothing is left, no catch-up is needed, or two milestones are missing."""
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
