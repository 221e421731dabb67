"""Failover and switchover: the milestone and source offsets from which a region continues, and the known loss.

The region that continues holds copies of the other one (the origin). Sequences continue from the milestone that
has arrived; later commits of the origin are a fork.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.generations.candidates import PARENT_DIGITS, Candidate, Candidates, EarlierClaim
from cutwater.core.generations.source_topics import copied_region
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import REGION_PATTERN, Generation, Token
from cutwater.core.protocol.mirror_records import Arrival, Mirrored, from_origin
from cutwater.core.protocol.records import Claim, Milestone, Release


@dataclass(frozen=True)
class Loss:
    """The known loss while the origin is away: a lower bound, as later events there are unknown."""

    behind: Token
    """The milestone from which this region continues."""
    newest: Token
    """The newest known milestone."""
    offsets: int
    """Source offsets read by these milestones and not copied: records and some markers."""
    as_of_ms: int
    """The time of the newest record of the origin, by its own clock."""

    @property
    def milestones(self) -> int:
        """Milestones committed there that this region does not hold."""
        return self.newest.sequence - self.behind.sequence


def known_loss(arrived: Milestone, newest: Milestone, copied: Mapping[TopicPartition, int], heard_ms: int) -> Loss:
    """Return the known loss. `newest`: the newest copied milestone. `copied`: the copied end by partition."""
    missing = sum(max(0, offset - copied.get(place, 0)) for place, offset in newest.source_cut if place in copied)
    return Loss(arrived.token, newest.token, missing, heard_ms)


def start_cut(arrival: Arrival, milestone: Milestone, source: str, region: str, firsts: Mapping[int, int]) -> Cut:
    """Return where a generation of `region` starts to read: in the copy of the origin's events, and in its own.

    `firsts`: the first offset of each partition of its own source, for partitions not read by the origin's line.
    """
    copy, home = from_origin(source, arrival.origin), from_origin(source, region)
    read = {place.partition: offset for place, offset in milestone.origin_cut if place.topic == home}
    own = {TopicPartition(source, at): read.get(at, first) for at, first in firsts.items()}
    return Cut.of({place: offset for place, offset in arrival.source_cut if place.topic == copy} | own)


def after_markers(cut: Cut, copied: Mapping[TopicPartition, int], firsts: Mapping[TopicPartition, int]) -> Cut:
    """Return a start cut without offsets that no record has: retention deletes also the marker of the last copied
    transaction, which the cut is in front of.

    `copied`: the offset here after the last copied record, by partition. `firsts`: the first kept offset.
    """
    empty = {place for place, offset in cut if copied.get(place, offset + 1) <= offset}
    return Cut.of({at: max(offset, firsts.get(at, offset)) if at in empty else offset for at, offset in cut})


def read_to_end(parent: Milestone, positions: Iterable[Mirrored], copy: str) -> Cut:
    """Return a milestone's origin cut, in front of the next record instead of after the last one where its region
    has read all that is copied. Markers and aborted records have no offset in the copy, and are deleted, too.

    `positions`: of the source, from the region of the milestone. `copy`: the source's name there.
    """
    stand = {TopicPartition(copy, one.partition): one for one in positions}
    whole = {at: one.next for at, one in stand.items() if one.local <= parent.source_cut.offset(at)}
    return Cut.of({at: max(offset, whole.get(at, offset)) for at, offset in parent.origin_cut})


def require_events(arrival: Arrival, milestone: Milestone, source: str) -> None:
    """Raise UsageError if an attached query's arrival does not say where its events continue here: the mirror that
    wrote it did not know the topic, or the query has read others."""
    read = [place for place, _ in milestone.source_cut if copied_region(source, place.topic) is None]
    if other := sorted({place.topic for place in read if place.topic != source}):
        raise UsageError(
            f"{milestone.token} has read {', '.join(other)}, but attached.source is {source}: the events of other "
            "topics are not mirrored, so the query cannot continue here. Correct the job file"
        )
    here = {place for place, _ in arrival.source_cut}
    copy = from_origin(source, arrival.origin)
    if missing := [place for place in read if TopicPartition(copy, place.partition) not in here]:
        raise UsageError(
            f"{arrival.token} arrived when the mirror did not copy {source}/{missing[0].partition}: start the "
            "mirror with the job file that has 'attached.source', and wait for a later arrival"
        )


def copied_up_to(positions: Iterable[Mirrored], source: str, origin: str) -> Cut:
    """Return how far the origin's source is copied, in its own offsets, by the partition here."""
    name = from_origin(source, origin)
    return Cut.of({TopicPartition(name, one.partition): one.next for one in positions if one.topic == source})


def require_placed(arrival: Arrival, stream: str, copied: Collection[TopicPartition]) -> None:
    """Raise UsageError if the deletion of a copy that an arrival depends on has started: its positions go first.
    `stream`: the copy of the commit stream. `copied`: the partitions here that have positions."""
    cuts = (arrival.source_cut, arrival.changelog_cut)
    stands_on = [TopicPartition(stream, 0), *(place for cut in cuts for place, _ in cut)]
    if unknown := [place for place in stands_on if place not in copied]:
        named = ", ".join(f"{one.topic}/{one.partition}" for one in unknown)
        raise UsageError(
            f"how far {named} is copied is not known: a resync has deleted the position. Nothing was claimed. "
            f"While {arrival.origin} is up, run 'cutwater mirror resync' again, start the mirror, and wait for an "
            "arrival"
        )


class CommonHistory(NamedTuple):
    """The point where the origin's line continues a milestone of this region."""

    at: int
    """The last sequence that both lines have in common."""
    by: Generation
    """The generation of the milestone here at the newest hand-over."""


class _HandOver(NamedTuple):
    """A hand-over of the job from this region to the origin."""

    first: int
    """The first milestone of the origin's stream that continues this region's line."""
    kept: int
    """The milestone of the origin's stream up to which its line before that one still counts."""
    at: int
    """The milestone here that it continues."""


def find_common_history(line: Iterable[Milestone], own: Mapping[str, Token]) -> CommonHistory | None:
    """Return where the origin's line was last handed over from here; None if it never was.

    `line`: the first milestone of each generation on the origin's commit stream, in order. `own`: the milestones
    here by the first digits of their hash, with which the id of a generation started from one ends. A rollback
    there to a milestone before the hand-over leaves less in common; one to a later milestone does not.
    """
    found: CommonHistory | None = None
    stands: list[_HandOver] = []
    for one in line:
        if is_claimed(one.generation) and (handed := own.get(one.generation.parent[:PARENT_DIGITS])):
            found = CommonHistory(handed.sequence, handed.generation)
            stands.append(_HandOver(one.sequence, one.rewinds_to or one.sequence - 1, found.at))
        elif found is not None and one.rewinds_to:
            found = found._replace(at=_common_after(one.rewinds_to, found.at, stands))
    return found


def _common_after(to: int, at: int, stands: list[_HandOver]) -> int:
    """Return the last sequence in common after a rollback there to `to`; removes the undone hand-overs.

    After a hand-over the two streams give different numbers to the same state, so `to` is compared with the
    origin's milestones. Up to the first hand-over both have the same numbers.
    """
    while stands and to < stands[-1].first:
        at = stands.pop().kept
        if stands:
            at = stands[-1].at
    return at if stands else min(at, to)


def require_joined(found: CommonHistory | None, job: str) -> CommonHistory:
    """Return `found`. Raises UsageError if the two regions have nothing in common."""
    if found is None:
        raise UsageError(
            f"job {job} has milestones of this region, but no generation of the other one was started from any of "
            "them: they are two jobs of the same name. Nothing was changed"
        )
    return found


def require_dead(origin: str, heard_ms: int, now_ms: int, least_ms: int, fenced: bool = False) -> None:
    """Raise UsageError if the origin was alive less than `least_ms` ago. `fenced`: its mirror has been fenced."""
    age_ms = now_ms - heard_ms
    if age_ms < least_ms:
        raise UsageError(
            f"region {origin} was heard of {max(0, age_ms) / 1000:.0f} s ago, and a failover is refused before "
            f"{least_ms / 1000:.0f} s (CUTWATER_FAILOVER_MIN_AGE_S): while it is up, this makes a fork. For a "
            "planned change: 'cutwater switchover'. If you know that it is dead: --force"
            + (". Its mirror was fenced before that was known: start it again" if fenced else "")
        )


def require_recipient(to: str, region: str) -> None:
    """Raise UsageError if `region` cannot release a job to `to`: a release is not easily undone."""
    if not re.fullmatch(REGION_PATTERN, to):
        raise UsageError(f"--to {to}: a region's name is a letter and up to 15 letters or digits, as in 'eu'")
    if to == region:
        raise UsageError(f"--to {to}: this is region {to} itself; name the region that will continue the job")


def require_same(release: Release, to: str) -> None:
    """Raise UsageError if the job was released to another region before."""
    if release.to != to:
        raise UsageError(
            f"job {release.job} was released to region {release.to} after {release.token} already, not to {to}. "
            "If that was a mistake: 'cutwater generation start' takes the job back here; then release it again"
        )


def require_not_given(release: Release, region: str) -> None:
    """Raise UsageError if the origin has released the job to another region."""
    if release.to != region:
        raise UsageError(
            f"job {release.job} was released to region {release.to} after {release.token}, but this is {region}: "
            "continuing here too makes a fork. If you know that the job does not continue there: --force"
        )


def require_copying(origin: str, paused: bool) -> None:
    """Raise UnavailableError if a switchover would wait for a paused mirror."""
    if paused:
        raise UnavailableError(
            f"the mirror of {origin} is paused, and its last milestone would not arrive. Nothing was released: "
            "'cutwater mirror resume' first"
        )


def require_current(again: EarlierClaim, parent: Token, newest: Token, released: bool) -> None:
    """Raise UsageError if a switchover would end with an earlier claim that is from another milestone. `parent`:
    the claim's parent. `newest`: the origin's newest milestone. `released`: the origin has released the job."""
    if parent == newest:
        return
    made, origin = again.claim.generation, again.claim.origin
    stands, so_far = ("ended", "") if released else ("is", " Nothing was released.")
    if again.done:
        ends = "" if released else " 'cutwater release' there ends it."
        raise UsageError(
            f"this region has continued from {parent} with {made}, and region {origin} {stands} at {newest}: "
            f"that is a fork, and a switchover does not bring it here.{so_far}{ends} 'cutwater forks list' shows "
            "it, and 'cutwater forks loss' what is lost"
        )
    raise UsageError(
        f"{made} was claimed from {parent}, and region {origin} {stands} at {newest}.{so_far} First 'cutwater "
        f"generation abort {made}'"
    )


def require_free(promoting: Candidate | None, again: EarlierClaim | None) -> None:
    """Raise UsageError if another generation's promotion is pending here; it must be given up first. `promoting`:
    the candidate whose promotion after the newest milestone here was requested."""
    if promoting is None or (again is not None and (again.done or again.claim == promoting.claim)):
        return
    asked = promoting.claim.generation
    raise UsageError(
        f"the promotion of {asked} was requested here, and nothing else is promoted meanwhile. Nothing was "
        f"changed: 'cutwater generation abort {asked}' first"
    )


def require_kept(base: Candidate, parent: Token) -> None:
    """Raise UsageError if an operator decided that the origin's line counts, not this region's. `base`: the
    candidate by which this region continued the origin's line. `parent`: the milestone from which it did."""
    decision, origin = base.decision, base.claim.origin
    if decision is not None and Generation.parse(decision.keeps).region == origin:
        raise UsageError(
            f"'cutwater forks decide' kept {decision.keeps}, and this region's own milestones after {parent} "
            "contradict that line: it cannot be continued here as it is. Nothing was changed. docs/FAILOVER.md "
            "says how this region becomes a replica of it again"
        )


def origin_claim(
    known: Candidates, generation: Generation, parent_of: Callable[[Claim], Milestone]
) -> Claim | None:
    """Return the claim by which a generation's line continued another region's; None if there is none. `known`:
    the claims here. `parent_of`: returns a claim's parent milestone."""
    while (candidate := known.by_id.get(generation)) is not None:  # an id contains its parent's hash: no cycles
        if candidate.claim.origin:
            return candidate.claim
        generation = parent_of(candidate.claim).generation
    return None


def resumed(
    base: Claim | None,
    waiting: Sequence[Claim],
    arrival: Arrival,
    parent_of: Callable[[Claim], Milestone],
    gave_up: bool,
    joins: Callable[[], CommonHistory | None],
) -> EarlierClaim | None:
    """Return the claim of an earlier try; None if a new claim is needed.

    `base`: the claim by which this region continued the origin's line. `waiting`: claims from the origin that are
    neither promoted nor given up, oldest first. `gave_up`: this region has released the job. `joins`: returns
    where the arrival's line was last handed over from here; called if this may be a failback. Raises UsageError if
    a claim can be neither made nor continued.
    """
    for claim in reversed(waiting):
        if parent_of(claim).token == arrival.token:
            return EarlierClaim(claim, done=False)
        raise UsageError(
            f"{claim.generation} was claimed from {parent_of(claim).token}, but the newest arrival is "
            f"{arrival.token}: 'cutwater generation abort {claim.generation}' first"
        )
    if base is None:
        return None
    # A higher number alone proves nothing: a fork may have generations of its own.
    if arrival.generation.number > parent_of(base).generation.number:
        back = joins()
        if back is not None and back.by.number >= base.generation.number:
            return None
    if gave_up:
        raise UsageError(
            f"the newest arrival is {arrival.token}, which this region already continued from before it released "
            "the job: later milestones have not arrived here. To take the job back, start a generation from the "
            "newest milestone here: 'cutwater generation start'"
        )
    return EarlierClaim(base, done=True)  # later arrivals are a fork
