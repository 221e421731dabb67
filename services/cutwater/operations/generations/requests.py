"""Requests about a job's generations: what each comes to, and whether it may be made. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidates, parent_of, promoted
from cutwater.adapters.topics.commit_stream import newest, newest_milestone
from cutwater.core.errors import NotYetError, UsageError
from cutwater.core.generations.candidates import Candidate, Candidates, promotion_obstacle
from cutwater.core.generations.claim_retry import ClaimRequest, find_earlier_claim, may_be_gone_on_with
from cutwater.core.generations.holds import active_hold, hold_text, may_be_held
from cutwater.core.generations.late_replay import Opening
from cutwater.core.job.job import Job
from cutwater.core.pacing.schedules import WorkBounds, bounds_of
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Claim, Hold, Milestone
from cutwater.operations.generations.redefinition import Redefined

if TYPE_CHECKING:
    from cutwater.core.canary.gate import Gate


class RequestedBounds(NamedTuple):
    bounds: WorkBounds
    by: str
    """Who asks for them."""


class GenerationRequest(NamedTuple):
    """A request for a generation, as for `Claims.plan`."""

    token: str | None
    partitions: int | None
    rewinds: bool
    reason: str
    another: bool = False
    """Claim another generation, even if an earlier try of the same request has claimed one."""
    opened: Opening | None = None
    """Which windows are open again, to count late events."""
    redefined: Redefined | None = None
    """Its job file, if it differs from its parent's."""
    canary: Gate | None = None
    """Set if it is to be compared with the promoted generation."""
    bounds: RequestedBounds | None = None
    """When and how fast it may work, if that is bounded from its claim on."""


class Planned(NamedTuple):
    """The claim for a request, existing or new."""

    claim: Claim
    again: bool = False
    """The claim of an earlier try."""
    done: bool = False
    """Already promoted."""
    begun: bool = False
    """The generation has a milestone, and no longer needs its parent's state."""


class GenerationRequests:
    """Checks requests about a job's generations. `now_ms`: the clock that dates the records."""

    def __init__(self, cluster: Cluster, job: Job, region: str, now_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._job = job
        self._region = region
        self._now_ms = now_ms

    def plan(self, token: str | None, partitions: int | None, rewinds: bool, reason: str) -> Claim:
        """Return the claim that `start` would write. `token` and `partitions`: None for the newest milestone
        and the parent's. Raises UsageError if there is no such milestone, or none may be started from it;
        NotYetError if another generation is being promoted."""
        last = self._last()
        parent = self._milestone(token, last)
        known = candidates(self._cluster, self._job.name)
        asked = known.promoting_behind(last)
        if asked is not None:
            raise NotYetError(
                f"{asked.claim.generation} is being promoted: wait for that, or run 'cutwater generation abort'"
            )
        if not rewinds and parent.generation != last.generation:
            raise UsageError(
                f"{parent.token} belongs to a generation before {last.generation}: to go back to it, run "
                f"'cutwater rollback --to {parent.token}'"
            )
        generation = known.next_id(self._region, protocol_records.hash_of(parent), last.generation)
        wanted = partitions or len(parent.changelog_cut)
        if wanted > self._job.shards.shards:
            raise UsageError(
                f"{wanted} partitions are too many: there are {self._job.shards.shards} shards, and a "
                "partition needs at least one"
            )
        back = parent.sequence if rewinds else 0
        return Claim(
            self._job.name, generation, protocol_records.encode(parent), wanted, back, reason, self._now_ms()
        )

    def planned(self, words: GenerationRequest) -> Planned:
        """Return the claim of an earlier try of the same request, or that of `plan`. Raises as `plan` does."""
        return self._earlier(words) or Planned(self.plan(*words[:4]))

    def _earlier(self, words: GenerationRequest) -> Planned | None:
        if words.another:
            return None
        last = self._last()
        known = candidates(self._cluster, self._job.name)
        parent = self._milestone(words.token, last) if words.token else None
        files = words.redefined.files if words.redefined else ()
        compares = words.canary is not None
        request = ClaimRequest(parent, words.partitions, words.rewinds, words.opened, files, compares)
        again = find_earlier_claim(request, known, last, parent_of)
        if again is None or not may_be_gone_on_with(again, known.promoting_behind(last)):
            return None
        begun = known.require(again.claim.generation).newest is not None
        return Planned(again.claim, again=True, done=again.done, begun=begun)

    def require_kept(self, claim: Claim) -> None:
        """Raise UsageError if the parent's changelog was removed."""
        parent = parent_of(claim)
        changelog = topics.changelog(self._job.name, parent.generation)
        if not admin.descriptions(self._cluster, [changelog]):
            raise UsageError(
                f"{changelog} is gone, and with it the state at {parent.token}: start from a later "
                "generation's milestone"
            )

    def to_promote(self, generation: Generation, despite_hold: bool = False) -> bool:
        """Return whether its promotion is still to be requested. Raises UsageError if it may not be promoted;
        NotYetError if another one is being promoted, or if it is held and `despite_hold` is not given."""
        known = candidates(self._cluster, self._job.name)
        candidate = known.require(generation)
        last = promoted(self._cluster, self._job.name)  # read second: it is as new as the claim's parent
        if last and last.generation == generation:
            return False
        why = promotion_obstacle(candidate, parent_of(candidate.claim), last)
        if why is not None:
            raise UsageError(why)
        hold = active_hold(candidate, self._now_ms())
        if hold is not None and not despite_hold:
            raise NotYetError(
                f"{generation} is not promoted: {hold_text(hold)}. Wait, run 'cutwater generation release "
                f"{generation}' once the reason is gone, or promote it with --despite-hold"
            )
        other = known.promoting_behind(last)
        if other is not None and other.claim.generation != generation:
            raise NotYetError(
                f"{other.claim.generation} is being promoted: wait for that, or run 'cutwater generation abort'"
            )
        return other is None

    def to_schedule(self, generation: Generation) -> WorkBounds:
        """Return the bounds in force. Raises UsageError if nothing bounds this candidate's work."""
        return bounds_of(self._require_may_wait(generation, "schedule", "", _late_schedule(generation)))

    def to_hold(self, generation: Generation) -> None:
        """Raise UsageError if this candidate's promotion cannot wait."""
        advice = ": 'cutwater generation abort' gives it up"
        self._require_may_wait(generation, "hold", advice, _late_hold(generation))

    def _require_may_wait(self, generation: Generation, what: str, advice: str, too_late: str) -> Candidate:
        """Return the candidate. `what`: delays its promotion. `advice`, `too_late`: ends of the refusals."""
        candidate = candidates(self._cluster, self._job.name).require(generation)
        if candidate.withdrawn is not None:
            raise UsageError(f"{generation} was given up: there is nothing to {what}")
        if not may_be_held(candidate.claim):
            raise UsageError(f"{generation} is a rollback or a failover, which no {what} delays{advice}")
        self._require_in_time(generation, too_late)
        return candidate

    def _require_in_time(self, generation: Generation, too_late: str) -> None:
        last = promoted(self._cluster, self._job.name)
        if last is not None and last.generation.number >= generation.number:
            raise UsageError(f"{last.generation} is promoted already: {too_late}")

    def require_held(self, generation: Generation) -> None:
        """Raise UsageError if it was promoted before its hold was written."""
        self._require_in_time(generation, _late_hold(generation))

    def require_scheduled(self, generation: Generation) -> None:
        """Raise UsageError if it was promoted before its schedule was written."""
        self._require_in_time(generation, _late_schedule(generation))

    def hold_of(self, generation: Generation) -> Hold | None:
        """Return the hold that the promotion waits for now. Raises UsageError if it was never claimed."""
        return active_hold(candidates(self._cluster, self._job.name).require(generation), self._now_ms())

    def to_abort(self, generation: Generation) -> Candidate:
        """Return the candidate for `abort`. Raises UsageError if it is promoted, or was never claimed."""
        candidate = candidates(self._cluster, self._job.name).require(generation)
        self._require_unpromoted(generation)
        return candidate

    def known(self) -> Candidates:
        """Return all claims ever made."""
        return candidates(self._cluster, self._job.name)

    def _is_promoted(self, generation: Generation) -> bool:
        return newest_milestone(self._cluster, self._job.name, generation) is not None

    def _require_unpromoted(self, generation: Generation) -> None:
        if self._is_promoted(generation):
            raise UsageError(
                f"{generation} is promoted, so it is too late to give it up; run 'cutwater rollback --to TOKEN' "
                "to go back to an earlier milestone"
            )

    def _last(self) -> Milestone:
        last = promoted(self._cluster, self._job.name)
        if last is None:
            raise UsageError(
                f"job {self._job.name} has no milestone yet, and a generation can only be started from one"
            )
        return last

    def _milestone(self, text: str | None, last: Milestone) -> Milestone:
        if text is None:
            return last
        token = Token.parse(text)
        found = newest(
            self._cluster,
            topics.milestones(self._job.name),
            lambda one: one if isinstance(one, Milestone) and one.token == token else None,
        )
        if found is None:
            raise UsageError(f"{text} is no milestone of {self._job.name}; 'cutwater milestones' lists them")
        return found


def _late_hold(generation: Generation) -> str:
    return f"it is too late to hold {generation}"


def _late_schedule(generation: Generation) -> str:
    return f"a schedule of {generation} bounds nothing"
