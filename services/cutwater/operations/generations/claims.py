"""Claims, promotions and withdrawals. A transactional id allows one writer at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client import TransactionalWriter
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.candidates import candidates, parent_of, promoted
from cutwater.adapters.topics.commit_stream import newest, newest_milestone
from cutwater.core.checks import replication
from cutwater.core.checks.replication import Replication
from cutwater.core.errors import ProtocolError, UsageError
from cutwater.core.generations.candidates import Candidate, Candidates, promotion_obstacle
from cutwater.core.generations.claim_retry import ClaimRequest, find_earlier_claim, may_be_gone_on_with
from cutwater.core.generations.holds import active_hold, hold_text, make_hold, make_release, may_be_held
from cutwater.core.generations.late_replay import Opening
from cutwater.core.job.job import Job
from cutwater.core.pacing.schedules import WorkBounds, bounds_of
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import (
    Canary,
    Candidacy,
    Claim,
    Hold,
    Milestone,
    Promotion,
    Reopening,
    Schedule,
    Withdrawal,
)
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


class Claims:
    """Requests about a job's generations. `now_ms`: the clock that dates the records."""

    def __init__(self, cluster: Cluster, job: Job, region: str, now_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._job = job
        self._region = region
        self._now_ms = now_ms

    def plan(self, token: str | None, partitions: int | None, rewinds: bool, reason: str) -> Claim:
        """Return the claim that `start` would write. `token` and `partitions`: None for the newest milestone
        and the parent's. Raises UsageError if there is no such milestone, or none may be started from it."""
        last = self._last()
        parent = self._milestone(token, last)
        known = candidates(self._cluster, self._job.name)
        asked = known.promoting_behind(last)
        if asked is not None:
            raise UsageError(
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

    def ask(self, words: GenerationRequest, copies: Replication, require: Callable[[Planned], object]) -> Planned:
        """Continue with an earlier try's claim of the same request, or reserve a generation with its changelog.
        `require`: checks that the parent's state is available. It is called again after the claim, since a
        concurrent prune may not have seen the claim. Raises UsageError as `plan` and `require` do."""
        again = self._earlier(words)
        if again is not None and again.done:
            return again
        return self._reserved(words, copies, require)

    def start(
        self,
        token: str | None,
        partitions: int | None,
        rewinds: bool,
        reason: str,
        copies: Replication,
        require: Callable[[Planned], object] | None = None,
    ) -> Claim:
        """Reserve another generation. Raises as `ask` does. By default the parent's changelog must exist."""
        words = GenerationRequest(token, partitions, rewinds, reason, another=True)
        return self.ask(words, copies, require or (lambda planned: self.require_kept(planned.claim))).claim

    def _reserved(
        self, words: GenerationRequest, copies: Replication, require: Callable[[Planned], object]
    ) -> Planned:
        plans: list[Planned] = []

        def made() -> Claim:
            plans.append(planned := self.planned(words))
            require(planned)
            return planned.claim

        self.reserve(made, copies, words.opened, words.redefined, words.canary, words.bounds)
        [planned] = plans
        try:
            require(planned)
        except UsageError:
            if not planned.again:  # an earlier one may have read that state already: the caller decides
                self.abort(planned.claim.generation, "its parent's changelog was removed meanwhile")
            raise
        return planned

    def require_kept(self, claim: Claim) -> None:
        """Raise UsageError if the parent's changelog was removed."""
        parent = parent_of(claim)
        changelog = topics.changelog(self._job.name, parent.generation)
        if not admin.descriptions(self._cluster, [changelog]):
            raise UsageError(
                f"{changelog} is gone, and with it the state at {parent.token}: start from a later "
                "generation's milestone"
            )

    def reserve(
        self,
        plan: Callable[[], Claim],
        copies: Replication,
        opened: Opening | None = None,
        redefined: Redefined | None = None,
        canary: Gate | None = None,
        bounds: RequestedBounds | None = None,
    ) -> Claim:
        """Fence other claimers, then write the claim of `plan`, also one of an earlier try.

        `opened`, `redefined`, `canary`, `bounds`: written in the same transaction, so that no process sees the
        claim without them.
        """
        writer = self._alone()
        claim = plan()
        changelog = topics.changelog(self._job.name, claim.generation)
        specs = topics.generation_topics(self._job.name, claim.generation, claim.partitions, self._job.output)
        # Before the claim, so that a claimed generation has its topic. The next claim of this id reuses it.
        admin.ensure_topics(self._cluster, [one for one in specs if one.name == changelog], copies)
        reach("changelog-made")
        with_it: list[Candidacy] = []
        if opened is not None:
            of = (self._job.name, claim.generation)
            with_it.append(Reopening(*of, opened.floor_ms, opened.source_cut, self._now_ms()))
        if redefined is not None:
            with_it += redefined.records(self._cluster, claim, self._now_ms())
        if canary is not None:
            with_it.append(Canary(self._job.name, claim.generation, *canary, self._now_ms()))
        if bounds is not None:
            with_it.append(bounds.bounds.record(self._job.name, claim.generation, bounds.by, self._now_ms()))
        self._write(writer, claim, *with_it)
        reach("claim-written")
        return claim

    def promote(self, generation: Generation, despite_hold_by: str = "") -> None:
        """Request a promotion, which commit-signal executes as soon as possible. May be repeated.

        `despite_hold_by`: who ends a hold of the candidate with it; empty for nobody. Raises as `to_promote`.
        """
        writer = self._alone()
        ask = self.to_promote(generation, despite_hold=bool(despite_hold_by))
        records: list[Candidacy] = []
        if despite_hold_by and self.hold_of(generation):
            why = "its promotion is forced"
            records.append(make_release(self._job.name, generation, despite_hold_by, why, self._now_ms()))
        if ask:
            records.append(Promotion(self._job.name, generation, self._now_ms()))
        if records:
            self._write(writer, *records)
            reach("promotion-asked")

    def hold(self, generation: Generation, for_ms: int, by: str, reason: str) -> Hold:
        """Let a candidate's promotion wait, also one that is requested already, at most for a day.

        Raises UsageError if it is promoted or given up, or if its promotion is a rollback or a failover.
        """
        hold = make_hold(self._job.name, generation, for_ms, by, reason, self._now_ms())
        writer = self._alone()
        self.to_hold(generation)
        self._write(writer, hold)
        reach("hold-written")
        return hold

    def schedule(self, generation: Generation, asked: RequestedBounds) -> Schedule:
        """Change when and how fast a candidate may work, from its next epoch on. Raises as `to_schedule`, and
        UsageError for a number out of its range."""
        record = asked.bounds.record(self._job.name, generation, asked.by, self._now_ms())
        writer = self._alone()
        self.to_schedule(generation)
        self._write(writer, record)
        reach("schedule-written")
        return record

    def to_schedule(self, generation: Generation) -> WorkBounds:
        """Return the bounds in force. Raises UsageError if nothing bounds this candidate's work."""
        candidate = candidates(self._cluster, self._job.name).require(generation)
        if candidate.withdrawn is not None:
            raise UsageError(f"{generation} was given up: there is nothing to schedule")
        if not may_be_held(candidate.claim):
            raise UsageError(f"{generation} is a rollback or a failover, which no schedule delays")
        last = promoted(self._cluster, self._job.name)
        if last is not None and last.generation.number >= generation.number:
            raise UsageError(f"{last.generation} is promoted already: a schedule of {generation} bounds nothing")
        return bounds_of(candidate)

    def to_hold(self, generation: Generation) -> None:
        """Raise UsageError if this candidate's promotion cannot wait."""
        candidate = candidates(self._cluster, self._job.name).require(generation)
        if candidate.withdrawn is not None:
            raise UsageError(f"{generation} was given up: there is nothing to hold")
        if not may_be_held(candidate.claim):
            raise UsageError(
                f"{generation} is a rollback or a failover, which no hold delays: 'cutwater generation abort' "
                "gives it up"
            )
        last = promoted(self._cluster, self._job.name)
        if last is not None and last.generation.number >= generation.number:
            raise UsageError(f"{last.generation} is promoted already: it is too late to hold {generation}")

    def release(self, generation: Generation, by: str, reason: str) -> bool:
        """End a candidate's hold; return whether it had one. Raises UsageError if it was never claimed."""
        writer = self._alone()
        if self.hold_of(generation) is None:
            return False
        self._write(writer, make_release(self._job.name, generation, by, reason, self._now_ms()))
        return True

    def hold_of(self, generation: Generation) -> Hold | None:
        """Return the hold that the promotion waits for now. Raises UsageError if it was never claimed."""
        return active_hold(candidates(self._cluster, self._job.name).require(generation), self._now_ms())

    def to_promote(self, generation: Generation, despite_hold: bool = False) -> bool:
        """Return whether its promotion is still to be requested. Raises UsageError if it may not be promoted, or
        if it is held and `despite_hold` is not given."""
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
            raise UsageError(
                f"{generation} is not promoted: {hold_text(hold)}. Wait, run 'cutwater generation release "
                f"{generation}' once the reason is gone, or promote it with --despite-hold"
            )
        other = known.promoting_behind(last)
        if other is not None and other.claim.generation != generation:
            raise UsageError(
                f"{other.claim.generation} is being promoted: wait for that, or run 'cutwater generation abort'"
            )
        return other is None

    def abort(self, generation: Generation, reason: str) -> None:
        """Give a candidate up. Raises UsageError if it is promoted, which a withdrawal does not undo."""
        writer = self._alone()
        candidate = self.to_abort(generation)
        if candidate.open:
            self._write(writer, Withdrawal(self._job.name, generation, reason, self._now_ms()))
        # Also on a repeated call, since the one before may have been killed after the withdrawal.
        TransactionalWriter(self._cluster, topics.driver_id(self._job.name, generation)).initialise()
        last = promoted(self._cluster, self._job.name)
        if candidate.promoting and (last is None or generation.number > last.generation.number):
            # commit-signal may not have read the withdrawal. Fenced, it can no longer promote.
            TransactionalWriter(self._cluster, topics.signal_id(self._job.name)).initialise()
            self._require_unpromoted(generation)

    def to_abort(self, generation: Generation) -> Candidate:
        """Return the candidate for `abort`. Raises UsageError if it is promoted, or was never claimed."""
        candidate = candidates(self._cluster, self._job.name).require(generation)
        self._require_unpromoted(generation)
        return candidate

    def known(self) -> Candidates:
        """Return all claims ever made."""
        return candidates(self._cluster, self._job.name)

    def _require_unpromoted(self, generation: Generation) -> None:
        if newest_milestone(self._cluster, self._job.name, generation) is not None:
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

    def _alone(self) -> TransactionalWriter:
        writer = TransactionalWriter(self._cluster, topics.claims_id(self._job.name))
        writer.initialise()
        return writer

    def _write(self, writer: TransactionalWriter, *records: Candidacy) -> None:
        if any(isinstance(one, Milestone) for one in records):
            raise ProtocolError("a candidate's milestones are written by its own commit-signal")
        writer.write(topics.candidates(self._job.name), [protocol_records.encode(one) for one in records])


def copies_of(cluster: Cluster, factor: int, min_insync: int) -> Replication:
    """Return the replication of a new changelog, as for every topic of the job."""
    return replication.decide(admin.brokers(cluster), factor, min_insync)
