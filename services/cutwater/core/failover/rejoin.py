"""A region that comes back: may its job go on here, or has another region gone on with it?

Theory of operation. Nothing fences two clusters from each other. While a region is away, another one may claim a
generation from one of its milestones; what the region commits then is a fork. The claim stands on the candidates
topic of the region that made it, so a driver and a commit-signal ask there before they go on.

Where nobody answers, the age of the newest word here decides. Below the age at which `failover` begins to do
without force nobody should have gone on, and a link that is broken stops no region. (The other one judges by what
was copied: where the link was cut before, it may have gone on sooner.) Above it they wait, until the other region
answers or an operator says behind which milestone to go on all the same. Where there is no word at all they wait,
too: a cluster that was lost whole and made again looks like one in which the job is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from cutwater.core.errors import CutwaterError, FencedError
from cutwater.core.failover.failover import came_by
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.generations.start_state import claimed
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Claim, Milestone

ParentOf = Callable[[Claim], Milestone]
"""A claim's parent milestone, as its own region tells it."""


class Stood(NamedTuple):
    """Where the job stands in the region that comes back."""

    behind: Token
    """Its newest milestone; sequence 0 where it has none."""
    heard_ms: int
    """When it last said anything on its commit stream; 0 for never."""
    held: int
    """The number of the other region's newest generation that the line here goes on from; 0 for none."""

    def may_be_left(self, now_ms: int, least_ms: int) -> bool:
        """Was it silent for so long that a failover needed no force? A clock put back does not say.

        Where nothing was ever heard the job is new, or the cluster was lost whole: nothing here tells which.
        """
        return not self.heard_ms or abs(now_ms - self.heard_ms) >= least_ms


def stood(
    generation: Generation,
    last: Milestone | None,
    heard_ms: int,
    known: Candidates,
    other: str,
    parent_of: ParentOf,
) -> Stood | None:
    """None where nobody needs to be asked: the generation goes on from the other region and has no milestone.

    `last`: the newest milestone of the commit stream; `known`: what was claimed here; `other`: the other region.
    """
    candidate = known.by_id.get(generation) if claimed(generation) else None
    promoted = last is not None and last.generation == generation
    if candidate is not None and candidate.claim.origin and not promoted:
        return None
    came = came_by(known, generation, parent_of)
    held = parent_of(came).generation.number if came is not None and came.origin == other else 0
    return Stood(last.token if last else Token(generation, 0), heard_ms, held)


class Found(NamedTuple):
    """What a process that would go on is to do now."""

    waits: bool
    why: str = ""
    """Of one that waits; or why nobody answered, of one that goes on."""


def unanswered(here: Stood, other: str, error: CutwaterError, may_be_left: bool, go_on_behind: str) -> Found:
    """What to do where the `other` region does not answer. `go_on_behind`: the operator's word, a token.

    His word stands for an answer that does not come; it never counts against one that does.
    """
    silent = f"region {other} does not answer"
    if not may_be_left:
        return Found(False, f"{silent}: {error}")
    if str(here.behind) == go_on_behind:
        return Found(False, f"{silent}, and CUTWATER_GO_ON_BEHIND={here.behind} says to go on: {error}")
    left = "while this one was silent" if here.heard_ms else "before this one lost it, where it is not new here"
    return Found(
        True,
        f"{silent}, and may have gone on with the job {left}: {error}. It is asked until it answers; if you know "
        f"that it has not gone on: CUTWATER_GO_ON_BEHIND={here.behind}",
    )


class Went(NamedTuple):
    """Another region goes on with the job of this one."""

    claim: Claim
    behind: Token
    """The milestone of this region that it went on from."""
    newest: Token | None
    """Its own newest milestone; None where nothing is promoted there."""


def went_on(standing: Iterable[Candidate], region: str, held: int) -> Claim | None:
    """The newest claim by which another region has gone on from `region`; None where none counts.

    `standing`: its claims from other regions' milestones that did not come to nothing. In a region numbers rise,
    and nothing is promoted behind a higher one: up to the generation that the line here goes on from (`held`) all
    is over. A fork that was decided for a line of `region` keeps nobody from going on with that.
    """
    found = [
        one.claim
        for one in standing
        if one.claim.origin == region and one.claim.generation.number > held and not _decided_for(region, one)
    ]
    return max(found, key=lambda one: one.generation.number, default=None)


def _decided_for(region: str, one: Candidate) -> bool:
    return one.decision is not None and Generation.parse(one.decision.keeps).region == region


def require_not_left(went: Went | None, job: str, region: str) -> None:
    """Raise FencedError where another region has gone on with the job."""
    if went is None:
        return
    generation = went.claim.generation
    other = generation.region
    head = f"region {other} has gone on with job {job}: {generation} was started there from {went.behind}"
    fork = f"what {region} commits behind that milestone would be a fork; this process leaves."
    if went.newest is not None and went.newest.generation.number >= generation.number:
        raise FencedError(
            f"{head}, and the newest milestone there is {went.newest}: {fork} To follow {other}: 'cutwater "
            f"release --to {other}' in {region}, and a mirror of {other}; to come back then: 'cutwater switchover "
            f"--origin {other}'. Where the line of {region} is to count: 'cutwater forks decide' in {other} "
            "(docs/FAILOVER.md)"
        )
    raise FencedError(
        f"{head}, and is not promoted yet: {fork} Let it be promoted, or give it up in {other} ('cutwater "
        f"generation abort {generation}'), and start this again"
    )
