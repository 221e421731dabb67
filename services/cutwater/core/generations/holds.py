"""Holds: a hand-over that waits, for a bounded time, until a person has looked.

A hold delays a planned promotion and nothing else. A rollback and a failover are remedies, so no hold applies to
them. Every hold ends by itself. It is checked where a promotion is requested, by commit-signal before it takes
the stream, and by the signaller that was fenced for it, which takes the stream back. Since a promotion may take
any time to catch up, a longer wait breaks no invariant; a hold that comes too late is without effect.
"""

from __future__ import annotations

from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Hold, Milestone
from cutwater.core.util.timestamps import iso

HOLD_MS_MAX = 86_400_000


def require_length(for_ms: int) -> None:
    """Raise UsageError if a hold is not above 0 and at most a day."""
    if not 0 < for_ms <= HOLD_MS_MAX:
        raise UsageError(
            f"a hold lasts for at most {HOLD_MS_MAX // 3_600_000} h, since a forgotten one would stop every "
            "hand-over: hold again before it ends"
        )


def make_hold(job: str, generation: Generation, for_ms: int, by: str, reason: str, now_ms: int) -> Hold:
    """Return the record of a hold. Raises as `require_length`."""
    require_length(for_ms)
    return Hold(job, generation, now_ms + for_ms, by, reason, now_ms)


def make_release(job: str, generation: Generation, by: str, reason: str, now_ms: int) -> Hold:
    """Return the record that ends a hold."""
    return Hold(job, generation, 0, by, reason, now_ms)


def may_be_held(claim: Claim) -> bool:
    """Return whether a claim's promotion is a planned hand-over, and neither a rollback nor a failover."""
    return not claim.rewinds_to and not claim.origin


def active_hold(candidate: Candidate, now_ms: int) -> Hold | None:
    """Return the hold that the candidate's promotion waits for; None if it need not wait.

    The bound holds for records of other programs too, and for a clock that was set back below the hold's begin.
    """
    hold = candidate.hold
    if hold is None or not candidate.open or not may_be_held(candidate.claim):
        return None
    return hold if now_ms < end_ms(hold) and now_ms > hold.at_ms - HOLD_MS_MAX else None


def end_ms(hold: Hold) -> int:
    """Return the time when a hold ends: its own, and a day after it was written at the latest."""
    return min(hold.until_ms, hold.at_ms + HOLD_MS_MAX)


def to_be_held(known: Candidates, last: Milestone | None) -> Generation | None:
    """Return the newest candidate that may still be promoted behind `last` and be held; None without one."""
    coming = [claim.generation for claim in known.coming(last) if may_be_held(claim)]
    return max(coming, key=lambda one: one.number, default=None)


def hold_text(hold: Hold) -> str:
    reason = f": {hold.reason}" if hold.reason else ""
    return f"it is held until {iso(hold.until_ms)} by {hold.by}{reason}"
