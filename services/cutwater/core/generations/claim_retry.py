"""A start or a rollback that is asked for again: which claim of an earlier try it goes on with.

Whoever asked may have died behind any step, and says the same words again. A claim does not hold the words, so
what they mean decides: the parent, the partitions, and how far it goes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cutwater.core.failover.failover import Again
from cutwater.core.generations.candidates import Candidate, Candidates, forbidden
from cutwater.core.protocol.records import Claim, Milestone


class Wish(NamedTuple):
    """What is asked for."""

    parent: Milestone | None
    """None: the newest milestone, which was another one when it was asked first."""
    partitions: int | None
    """None: as many as the parent has."""
    rewinds: bool
    """A rollback; its parent is named."""


def earlier(
    wish: Wish, known: Candidates, last: Milestone, parent_of: Callable[[Claim], Milestone]
) -> Again | None:
    """What an earlier try has claimed; None where a new claim is to be made.

    `last`: the newest milestone of the commit stream. Of several the newest claim is gone on with. A rollback that
    is promoted, with nothing promoted behind it, is done. What was given up, or may not follow `last` any more, is
    gone on with by nobody.
    """
    for one in reversed(list(known.by_id.values())):
        parent = parent_of(one.claim)
        if not _meant(wish, one.claim, parent):
            continue
        if wish.rewinds and one.claim.generation == last.generation:
            return Again(one.claim, done=True)
        if forbidden(one, parent, last) is None:
            return Again(one.claim, done=False)
    return None


def may_be_gone_on_with(again: Again, asked: Candidate | None) -> bool:
    """Not while the promotion of another one is asked for, `asked`: that is waited for, or given up, first."""
    return asked is None or asked.claim.generation == again.claim.generation


def _meant(wish: Wish, claim: Claim, parent: Milestone) -> bool:
    back = parent.sequence if wish.rewinds else 0
    same = wish.parent is None or wish.parent == parent
    partitions = wish.partitions or len(parent.changelog_cut)
    return same and not claim.origin and (claim.partitions, claim.rewinds_to) == (partitions, back)
