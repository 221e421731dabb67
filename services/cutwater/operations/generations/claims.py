"""Claims, promotions and withdrawals. A transactional id allows one writer at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.candidates import promoted
from cutwater.core.checks import replication
from cutwater.core.checks.replication import Replication
from cutwater.core.errors import ProtocolError, UsageError
from cutwater.core.generations.holds import make_hold, make_release
from cutwater.core.generations.late_replay import Opening
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
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
from cutwater.operations.generations.requests import (
    GenerationRequest,
    GenerationRequests,
    Planned,
    RequestedBounds,
)

if TYPE_CHECKING:
    from cutwater.core.canary.gate import Gate


class Claims(GenerationRequests):
    """Carries requests about a job's generations out, each behind a fence."""

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
        except UsageError as error:
            if not planned.again:  # an earlier one may have read that state already: the caller decides
                self.abort(planned.claim.generation, str(error))
            raise
        return planned

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

        Raises UsageError if it is promoted, also if that happens during this call; if it is given up, or if its
        promotion is a rollback or a failover.
        """
        hold = make_hold(self._job.name, generation, for_ms, by, reason, self._now_ms())
        writer = self._alone()
        self.to_hold(generation)
        self._write(writer, hold)
        reach("hold-written")
        self.require_held(generation)
        return hold

    def schedule(self, generation: Generation, asked: RequestedBounds) -> Schedule:
        """Change when and how fast a candidate may work, from its next epoch on. Raises as `to_schedule`, and
        UsageError for a number out of its range."""
        record = asked.bounds.record(self._job.name, generation, asked.by, self._now_ms())
        writer = self._alone()
        self.to_schedule(generation)
        self._write(writer, record)
        reach("schedule-written")
        self.require_scheduled(generation)
        return record

    def release(self, generation: Generation, by: str, reason: str) -> bool:
        """End a candidate's hold; return whether it had one. Raises UsageError if it was never claimed."""
        writer = self._alone()
        if self.hold_of(generation) is None:
            return False
        self._write(writer, make_release(self._job.name, generation, by, reason, self._now_ms()))
        return True

    def abort(self, generation: Generation, reason: str) -> None:
        """Give a candidate up. Raises UsageError if it is promoted, which a withdrawal does not undo: also if that
        happens during this call."""
        self._abort(generation, reason)

    def abort_unasked(self, generation: Generation, reason: str) -> bool:
        """Give a candidate up unless its promotion is requested or done; return whether it is given up. Raises
        UsageError if it was never claimed. For a process that decides by a rule: a person's request counts."""
        return self._abort(generation, reason, unasked=True)

    def _abort(self, generation: Generation, reason: str, unasked: bool = False) -> bool:
        writer = self._alone()
        candidate = self.known().require(generation)
        if (unasked and candidate.open and candidate.promoting) or self._comes_too_late(generation, unasked):
            return False
        if candidate.open:
            self._write(writer, Withdrawal(self._job.name, generation, reason, self._now_ms()))
        last = promoted(self._cluster, self._job.name)
        if candidate.promoting and (last is None or generation.number > last.generation.number):
            # commit-signal may not have read the withdrawal. Fenced, it can no longer promote.
            TransactionalWriter(self._cluster, topics.signal_id(self._job.name)).initialise()
        if self._comes_too_late(generation, unasked):  # before its driver ends: a promoted one's must not
            return False
        # Also on a repeated call, since the one before may have been killed after the withdrawal.
        TransactionalWriter(self._cluster, topics.driver_id(self._job.name, generation)).initialise()
        return True

    def _comes_too_late(self, generation: Generation, unasked: bool) -> bool:
        """Return whether it is promoted, which is an error if the withdrawal was asked for."""
        if not unasked:
            self._require_unpromoted(generation)
        return unasked and self._is_promoted(generation)

    def abort_coming(self, reason: str) -> list[Generation]:
        """Give up all candidates that may still be promoted; return them. A claim that another process is about to
        write fails, so none is missed. Raises as `abort`, but for one that is promoted meanwhile."""
        self._alone()
        coming = [one.generation for one in self.known().coming(promoted(self._cluster, self._job.name))]
        for one in coming:
            with suppress(UsageError):  # promoted
                self.abort(one, reason)
        return coming

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
