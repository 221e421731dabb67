"""Going on in another region: from which milestone, from where in the events, and what is known to be lost.

The region that goes on holds copies of the other one (the origin). Sequences go on from the milestone that has
arrived; what the origin committed behind it is a fork from then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.generations.candidates import PARENT_DIGITS, Candidate, Candidates
from cutwater.core.generations.start_state import claimed
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import REGION_PATTERN, Generation, Token
from cutwater.core.protocol.mirror_records import Arrival, Mirrored, from_origin
from cutwater.core.protocol.records import Claim, Milestone, Release


@dataclass(frozen=True)
class Loss:
    """What is known to be lost while the origin is away. It is a lower bound: nobody here knows of the rest."""

    behind: Token
    """The milestone that is gone on from."""
    newest: Token
    """The newest one that was heard of."""
    offsets: int
    """Of the source, which those milestones have read and which were not copied: records, and some markers."""
    as_of_ms: int
    """When the origin was last heard of, by its own clock."""

    @property
    def milestones(self) -> int:
        """Promised to readers there, and not held here."""
        return self.newest.sequence - self.behind.sequence


def known_loss(arrived: Milestone, newest: Milestone, copied: Mapping[TopicPartition, int], heard_ms: int) -> Loss:
    """`newest`: of the copied milestones; `copied`: the origin's offset up to which each partition was copied."""
    missing = sum(max(0, offset - copied.get(place, 0)) for place, offset in newest.source_cut if place in copied)
    return Loss(arrived.token, newest.token, missing, heard_ms)


def begins_at(arrival: Arrival, milestone: Milestone, source: str, region: str, firsts: Mapping[int, int]) -> Cut:
    """Where a generation of `region` begins to read: in the copy of the origin's events, and in its own.

    `firsts`: the first offset of each partition of its own source, for what the origin's line has not read of it.
    """
    copy, home = from_origin(source, arrival.origin), from_origin(source, region)
    read = {place.partition: offset for place, offset in milestone.origin_cut if place.topic == home}
    own = {TopicPartition(source, at): read.get(at, first) for at, first in firsts.items()}
    return Cut.of({place: offset for place, offset in arrival.source_cut if place.topic == copy} | own)


def copied_up_to(positions: Iterable[Mirrored], source: str, origin: str) -> Cut:
    """How far the origin's source is copied, in its own offsets; by the place here."""
    name = from_origin(source, origin)
    return Cut.of({TopicPartition(name, one.partition): one.next for one in positions if one.topic == source})


def require_placed(arrival: Arrival, stream: str, copied: Collection[TopicPartition]) -> None:
    """Raise UsageError where a copy that an arrival stands on has begun to be given up: its positions go first.

    `stream`: the copy of the commit stream. `copied`: the partitions here of which there are positions.
    """
    cuts = (arrival.source_cut, arrival.changelog_cut)
    stands_on = [TopicPartition(stream, 0), *(place for cut in cuts for place, _ in cut)]
    if unknown := [place for place in stands_on if place not in copied]:
        named = ", ".join(f"{one.topic}/{one.partition}" for one in unknown)
        raise UsageError(
            f"how far {named} is copied is not known: somebody has begun to give the copy up. Nothing was "
            f"claimed. While {arrival.origin} lives, run 'cutwater mirror resync' again, start the mirror, and "
            "wait for an arrival"
        )


class Joined(NamedTuple):
    """The origin's line goes on from a milestone of this region."""

    at: int
    """The last sequence that both lines have in common."""
    by: Generation
    """That of the milestone here, at the newest hand-over."""


def joined(line: Iterable[Milestone], own: Mapping[str, Token]) -> Joined | None:
    """Where the origin's line was handed over from here last; None where it never was.

    `line`: the first milestone of each generation on the origin's commit stream, in order; `own`: each milestone
    here, by the first digits of its hash, which the id of the generation that was started from it ends with. A
    rollback there, behind the hand-over, leaves less in common.
    """
    found: Joined | None = None
    for one in line:
        if claimed(one.generation) and (handed := own.get(one.generation.parent[:PARENT_DIGITS])):
            found = Joined(handed.sequence, handed.generation)
        elif found is not None and one.rewinds_to:
            found = found._replace(at=min(found.at, one.rewinds_to))
    return found


def require_joined(found: Joined | None, job: str) -> Joined:
    """Raises UsageError where the two regions have nothing in common."""
    if found is None:
        raise UsageError(
            f"job {job} has milestones of this region, and no generation of the other one was started from any of "
            "them: they are two jobs of one name. Nothing was changed"
        )
    return found


def require_dead(origin: str, heard_ms: int, now_ms: int, least_ms: int, fenced: bool = False) -> None:
    """Raise UsageError where the origin was alive a moment ago. `fenced`: its mirror is ended already."""
    age_ms = now_ms - heard_ms
    if age_ms < least_ms:
        raise UsageError(
            f"region {origin} was heard of {max(0, age_ms) / 1000:.0f} s ago, and a failover is refused before "
            f"{least_ms / 1000:.0f} s (CUTWATER_FAILOVER_MIN_AGE_S): while it lives this makes a fork. For a "
            "planned change: 'cutwater switchover'. If you know that it is dead: --force"
            + (". Its mirror was fenced before that was known: start it again" if fenced else "")
        )


def require_recipient(to: str, region: str) -> None:
    """Raise UsageError where a job cannot be released to `to` by `region`: a release is not taken back easily."""
    if not re.fullmatch(REGION_PATTERN, to):
        raise UsageError(f"--to {to}: a region's name is a letter and up to 15 letters or digits, as in 'eu'")
    if to == region:
        raise UsageError(f"--to {to}: this is region {to} itself; name the one that is to go on")


def require_same(release: Release, to: str) -> None:
    """Raise UsageError where the job was released before, to another region."""
    if release.to != to:
        raise UsageError(
            f"job {release.job} was released to region {release.to} behind {release.token} already, not to {to}. "
            "Where that was a mistake: 'cutwater generation start' takes the job back here; release it then anew"
        )


def require_not_given(release: Release, region: str) -> None:
    """Raise UsageError where the origin has released the job to a region that is not this one."""
    if release.to != region:
        raise UsageError(
            f"job {release.job} was released to region {release.to} behind {release.token}, and this is {region}: "
            "to go on here, too, makes a fork. If you know that nobody goes on there: --force"
        )


def require_copying(origin: str, paused: bool) -> None:
    """Raise UnavailableError where a switchover would wait for a mirror that rests."""
    if paused:
        raise UnavailableError(
            f"the mirror of {origin} is paused, and its last milestone would not arrive. Nothing was released: "
            "'cutwater mirror resume' first"
        )


def require_current(again: Again, parent: Token, newest: Token, released: bool) -> None:
    """Raise UsageError where a switchover would end with, or behind, an earlier claim from another milestone.

    `parent`: what the claim goes on from; `newest`: where the origin is; `released`: it has given the job up.
    """
    if parent == newest:
        return
    made, origin = again.claim.generation, again.claim.origin
    stands, so_far = ("ended", "") if released else ("is", " Nothing was released.")
    if again.done:
        ends = "" if released else " 'cutwater release' there ends it."
        raise UsageError(
            f"this region has gone on from {parent} with {made}, and region {origin} {stands} at {newest}: "
            f"that is a fork, and a switchover does not bring it here.{so_far}{ends} 'cutwater forks list' shows "
            "it, and 'cutwater forks loss' what is lost"
        )
    raise UsageError(
        f"{made} was claimed from {parent}, and region {origin} {stands} at {newest}.{so_far} First 'cutwater "
        f"generation abort {made}'"
    )


def require_free(promoting: Candidate | None, again: Again | None) -> None:
    """Raise UsageError where another generation is to be promoted here: nothing else is, until it is given up.

    `promoting`: whose promotion was asked for, behind the newest milestone here.
    """
    if promoting is None or (again is not None and (again.done or again.claim == promoting.claim)):
        return
    asked = promoting.claim.generation
    raise UsageError(
        f"the promotion of {asked} was asked for here, and nothing else is promoted meanwhile. Nothing was "
        f"changed: 'cutwater generation abort {asked}' first"
    )


def require_kept(base: Candidate, parent: Token) -> None:
    """Raise UsageError where an operator decided that the origin's line counts and not that of this region.

    `base`: by which this region's line came from the origin; `parent`: where it did.
    """
    decision, origin = base.decision, base.claim.origin
    if decision is not None and Generation.parse(decision.keeps).region == origin:
        raise UsageError(
            f"'cutwater forks decide' kept {decision.keeps}, and this region's own milestones behind {parent} "
            "contradict that line: it cannot be gone on with here as it is. Nothing was changed. docs/FAILOVER.md "
            "says how this region becomes a replica of it again"
        )


def came_by(known: Candidates, generation: Generation, parent_of: Callable[[Claim], Milestone]) -> Claim | None:
    """By which claim the line of a generation came here from another region, if it did.

    `known`: what was claimed here; `parent_of`: a claim's parent milestone.
    """
    while (
        candidate := known.by_id.get(generation)
    ) is not None:  # an id holds its parent's hash: no line comes back
        if candidate.claim.origin:
            return candidate.claim
        generation = parent_of(candidate.claim).generation
    return None


class Again(NamedTuple):
    """The claim of an earlier try."""

    claim: Claim
    done: bool
    """It is promoted."""


def resumed(
    base: Claim | None,
    waiting: Sequence[Claim],
    arrival: Arrival,
    parent_of: Callable[[Claim], Milestone],
    gave_up: bool,
    joins: Callable[[], Joined | None],
) -> Again | None:
    """What an earlier try has claimed; None where a new claim is to be made.

    `base`: by which this region's line came from the origin. `waiting`: from the origin, neither promoted nor
    given up, oldest first. `gave_up`: this region has released the job. `joins`: where the line of the arrival
    was handed over from here last, asked where it may be the way back. Raises UsageError where no claim is to be
    made, and none gone on with.
    """
    for claim in reversed(waiting):
        if parent_of(claim).token == arrival.token:
            return Again(claim, done=False)
        raise UsageError(
            f"{claim.generation} was claimed from {parent_of(claim).token}, and the newest arrival is "
            f"{arrival.token}: 'cutwater generation abort {claim.generation}' first"
        )
    if base is None:
        return None
    # A later number alone says nothing: a fork may have a generation of its own.
    if arrival.generation.number > parent_of(base).generation.number:
        back = joins()
        if back is not None and back.by.number >= base.generation.number:
            return None
    if gave_up:
        raise UsageError(
            f"the newest arrival is {arrival.token}, which this region has gone on from before it released the "
            "job: nothing of what followed is here. To take the job back, start a generation from the newest "
            "milestone here: 'cutwater generation start'"
        )
    return Again(base, done=True)  # what has arrived since is a fork
