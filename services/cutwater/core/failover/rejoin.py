"""Rejoin of a region after an outage: whether its job may continue here, or another region has taken over.

Theory of operation. Nothing fences two clusters from each other. While a region is away, another one may claim a
generation from one of its milestones; later commits of the region are then a fork. The claim is on the candidates
topic of the region that made it, so a driver and commit-signal query that topic before they continue.

If the other region does not answer, the age of the newest record here decides. Below the age from which `failover`
needs no force, no region should have taken over, so a broken link stops no region. (The other region judges by
what was copied: if the link was cut earlier, it may have taken over sooner.) Above that age the processes wait
until the other region answers or an operator names the milestone after which to continue. Without any record they
wait too: a cluster that was lost and recreated looks like one in which the job is new.

A generation that continues another region and has no milestone here has not begun, or the log has lost them. Its
processes query too, but briefly and without waiting for an answer: the other region may be dead, and only a claim
from a milestone of this very generation stops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from cutwater.core.errors import CutwaterError, FencedError
from cutwater.core.failover.failover import origin_claim
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Claim, Milestone

ParentOf = Callable[[Claim], Milestone]
"""Returns a claim's parent milestone as written in its own region."""


class LocalPosition(NamedTuple):
    """The job's position in the returning region."""

    behind: Token
    """Its newest milestone; sequence 0 for none."""
    heard_ms: int
    """The time of the newest record on its commit stream; 0 for none."""
    held: int
    """The number of the other region's newest generation that was continued here; 0 for none."""
    begins: Generation | None = None
    """The generation here, if it continues another region and has no milestone here."""

    def may_be_left(self, now_ms: int, least_ms: int) -> bool:
        """Return whether it was silent long enough for a failover without force; a clock set back does not hide
        it. True without any record: the job is new or the cluster was lost, which cannot be distinguished here.
        False for a generation that begins: what it continues was decided in this region."""
        return self.begins is None and (not self.heard_ms or abs(now_ms - self.heard_ms) >= least_ms)


def local_position(
    generation: Generation,
    last: Milestone | None,
    heard_ms: int,
    known: Candidates,
    other: str,
    parent_of: ParentOf,
) -> LocalPosition:
    """Return the position. `last`: the newest milestone of the commit stream. `known`: the claims here. `other`:
    the other region."""
    candidate = known.by_id.get(generation) if is_claimed(generation) else None
    promoted = last is not None and last.generation == generation
    if candidate is not None and candidate.claim.origin and not promoted:
        return LocalPosition(Token(generation, 0), heard_ms, 0, generation)
    came = origin_claim(known, generation, parent_of)
    back = [one for one in (came, *_promoted_before(known, last)) if one is not None and one.origin == other]
    held = max((parent_of(one).generation.number for one in back), default=0)
    return LocalPosition(last.token if last else Token(generation, 0), heard_ms, held)


def _promoted_before(known: Candidates, last: Milestone | None) -> list[Claim]:
    """Return the claims that were promoted up to `last`: nothing else is promoted beside a requested promotion.
    One has ended the other region's generations, also if a rollback went back to a milestone before it."""
    number = last.generation.number if last else 0
    return [
        one.claim
        for one in known.by_id.values()
        if one.open and one.promoting and one.claim.generation.number <= number
    ]


class ResumeDecision(NamedTuple):
    """The decision for a process that wants to continue."""

    waits: bool
    why: str = ""
    """Why it waits; or, if it continues, why there was no answer."""


def unanswered(
    here: LocalPosition, other: str, error: CutwaterError, may_be_left: bool, go_on_behind: str
) -> ResumeDecision:
    """Decide if the `other` region does not answer. `go_on_behind`: a token set by the operator. The operator's
    token replaces a missing answer; it never overrides an answer."""
    silent = f"region {other} does not answer"
    if not may_be_left:
        return ResumeDecision(False, f"{silent}: {error}")
    if str(here.behind) == go_on_behind:
        return ResumeDecision(False, f"{silent}, and CUTWATER_GO_ON_BEHIND={here.behind} says to go on: {error}")
    left = "while this one was silent" if here.heard_ms else "before this one lost it (if it is not new here)"
    return ResumeDecision(
        True,
        f"{silent}, and may have continued the job {left}: {error}. This process retries until it answers. If you "
        f"know that it has not continued the job, set CUTWATER_GO_ON_BEHIND={here.behind}",
    )


class RemoteTakeover(NamedTuple):
    """The takeover of this region's job by another region."""

    claim: Claim
    behind: Token
    """The milestone of this region from which it continued."""
    newest: Token | None
    """Its own newest milestone; None if nothing is promoted there."""


def find_takeover(
    standing: Iterable[Candidate], region: str, here: LocalPosition, parent_of: ParentOf
) -> Claim | None:
    """Return the newest claim by which another region continued `region`'s line; None if none counts.

    `standing`: its claims from other regions' milestones that were not given up. In a region numbers rise, and
    nothing is promoted after a higher one, so generations up to the one that the line here continues have ended.
    For a generation that begins here, only claims from its own milestones count. A fork that was decided for a
    line of `region` does not count.
    """
    found = [
        one.claim
        for one in standing
        if one.claim.origin == region and _continues(one.claim, here, parent_of) and not _decided_for(region, one)
    ]
    return max(found, key=lambda one: one.generation.number, default=None)


def _continues(claim: Claim, here: LocalPosition, parent_of: ParentOf) -> bool:
    if here.begins is not None:
        return parent_of(claim).generation == here.begins
    return claim.generation.number > here.held


def _decided_for(region: str, one: Candidate) -> bool:
    return one.decision is not None and Generation.parse(one.decision.keeps).region == region


def require_not_left(went: RemoteTakeover | None, job: str, region: str) -> None:
    """Raise FencedError if another region has taken over the job."""
    if went is None:
        return
    generation = went.claim.generation
    other = generation.region
    head = f"region {other} has taken over job {job}: {generation} was started there from {went.behind}"
    fork = f"commits of {region} after that milestone would be a fork, so this process stops."
    if went.newest is not None and went.newest.generation.number >= generation.number:
        raise FencedError(
            f"{head}, and the newest milestone there is {went.newest}: {fork} To follow {other}: 'cutwater "
            f"release --to {other}' in {region}, and a mirror of {other}; to come back: 'cutwater switchover "
            f"--origin {other}'. To keep the line of {region} instead: 'cutwater forks decide' in {other} "
            "(docs/FAILOVER.md)"
        )
    raise FencedError(
        f"{head}, and is not promoted yet: {fork} Let it be promoted, or give it up in {other} ('cutwater "
        f"generation abort {generation}') and start this process again"
    )
