"""Retry of a start or rollback: the claim of an earlier try that it continues.

The caller may have died after any step and repeats its command. A claim does not hold the command, so its meaning
decides: the parent, the number of partitions, how far it goes back, which windows it opens again, and a job file
of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cutwater.core.generations.candidates import Candidate, Candidates, EarlierClaim, promotion_obstacle
from cutwater.core.generations.late_replay import Opening, is_opened
from cutwater.core.protocol.records import Claim, FileText, Milestone


class ClaimRequest(NamedTuple):
    """The requested start or rollback."""

    parent: Milestone | None
    """None: the newest milestone, which was another one at the first try."""
    partitions: int | None
    """None: as many as the parent has."""
    rewinds: bool
    """Whether it is a rollback; its parent is given."""
    opened: Opening | None = None
    """Which windows must be open again, to count late events."""
    files: tuple[FileText, ...] = ()
    """Its job file, if it differs from its parent's."""
    compares: bool = False
    """Whether it is to be a canary."""


def find_earlier_claim(
    wish: ClaimRequest, known: Candidates, last: Milestone, parent_of: Callable[[Claim], Milestone]
) -> EarlierClaim | None:
    """Return the claim of an earlier try, the newest if there are several; None if a new claim is needed.

    `last`: the newest milestone of the commit stream. A promoted rollback with nothing promoted after it is done.
    Claims that were aborted or may no longer follow `last` are ignored.
    """
    for one in reversed(list(known.by_id.values())):
        parent = parent_of(one.claim)
        files = one.redefinition.files if one.redefinition else ()
        if (
            files != wish.files
            or (one.canary is not None) != wish.compares
            or not _meant(wish, one.claim, parent)
            or not is_opened(one.reopening, wish.opened)
        ):
            continue
        if wish.rewinds and one.claim.generation == last.generation:
            return EarlierClaim(one.claim, done=True)
        if promotion_obstacle(one, parent, last) is None:
            return EarlierClaim(one.claim, done=False)
    return None


def may_be_gone_on_with(again: EarlierClaim, asked: Candidate | None) -> bool:
    """Return whether a retry may continue: not while the promotion of another candidate, `asked`, is pending."""
    return asked is None or asked.claim.generation == again.claim.generation


def _meant(wish: ClaimRequest, claim: Claim, parent: Milestone) -> bool:
    back = parent.sequence if wish.rewinds else 0
    same = wish.parent is None or wish.parent == parent
    partitions = wish.partitions or len(parent.changelog_cut)
    return same and not claim.origin and (claim.partitions, claim.rewinds_to) == (partitions, back)
