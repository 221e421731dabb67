"""Decides whether a stack continues after a driver or commit-signal has ended permanently.

If foreign rows or a lost checkpoint ended the promoted generation, the next one is started and promoted. If
records are lost, the other processes continue, so that an operator can start a generation from a milestone that
does not need them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidates, promoted
from cutwater.adapters.topics.commit_stream import release
from cutwater.adapters.topics.provable_milestones import newest_provable
from cutwater.core.checks.replication import Replication
from cutwater.core.errors import CutwaterError, ForeignRowsError, UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Milestone
from cutwater.local.processes.exit_policy import Fate, ProcessEnd, Stage, decide_fate
from cutwater.operations.generations.claim_turns import in_turn
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.requests import Planned

RENEWALS_MAX = 3
"""The maximum in the life of a stack: an operator must find a process that writes foreign rows all the time."""


class AutoRecovery:
    """Called at each permanent end; remembers which generations' drivers have been given up for a successor."""

    def __init__(
        self,
        cluster: Cluster,
        job: str,
        claims: Claims,
        copies: Callable[[], Replication],
        require: Callable[[Planned], object],
        made: Callable[[], Collection[Generation]],
        report: Callable[[str], None],
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """`require`: raises UsageError for a claim that cannot work. `made`: returns the generations whose
        processes this stack has started since its start."""
        self._cluster = cluster
        self._job = job
        self._claims = claims
        self._copies = copies
        self._require = require
        self._made = made
        self._report, self._pause = report, pause
        self._forsaken: set[Generation] = set()
        self._stage = Stage(None, ())
        self._begun = 0
        self._ended: set[Generation] = set()
        """The generations of which a process has ended for good here."""

    def reason_to_continue(self, ended: ProcessEnd) -> str | None:
        """Return why the other processes continue without this one; None if they cannot."""
        self._ended.add(ended.generation)
        fate = decide_fate(ended, self._look())
        if fate is Fate.RENEW:
            fate = self._renew(ended)
        elif fate is Fate.WAITS:
            fate = self._wait(ended)
        return None if fate is Fate.ENDS else str(fate.value)

    def _look(self) -> Stage:
        # If no broker answers, use the last known state. The next start of the stack reads it again.
        try:
            last = promoted(self._cluster, self._job)
            if last is not None:
                forsaken = last.generation in self._forsaken
                successor = self._successor(last) if forsaken else None
                self._stage = Stage(last.generation, self._made(), forsaken, successor)
        except CutwaterError as error:
            self._report(f"the promoted generation cannot be read: {error}")
        return self._stage

    def _successor(self, last: Milestone) -> Generation | None:
        asked = candidates(self._cluster, self._job).promoting_behind(last)
        return asked.claim.generation if asked else None

    def _wait(self, ended: ProcessEnd) -> Fate:
        """Report the milestone from which the job can continue, and clear the way for a rollback to it."""
        if ended.generation != self._stage.promoted:
            self._give_up(self._claims.abort, ended.generation, "records of its parent are lost")
        try:
            self._report(f"warning: records are lost. {newest_provable(self._cluster, self._job).advise()}")
        except CutwaterError as error:
            self._report(f"warning: records are lost, and no milestone to continue from is known: {error}")
        return Fate.WAITS

    def _renew(self, ended: ProcessEnd) -> Fate:
        """Start and promote the next generation, unless that is in progress. Return what really follows."""
        why = "foreign rows have ended" if ended.exit_code == ForeignRowsError.exit_code else "no checkpoint fits"
        reason = f"{why} {ended.generation}"
        try:
            last = self._last()
            successor = self._other_successor(last, ended)
            if successor is None:
                if self._begun >= RENEWALS_MAX:
                    self._report(f"this stack has started {RENEWALS_MAX} generations by itself: it starts no more")
                    return Fate.ENDS
                self._begun += 1
                successor = self._follow(last, ended.generation, reason)
        except CutwaterError as error:
            return self._after_refusal(ended, reason, error)
        return self._give_over(last, successor, reason)

    def _give_over(self, last: Milestone, successor: Generation, reason: str) -> Fate:
        self._forsaken.add(last.generation)
        self._report(f"{reason}: {successor} follows from {last.token}")
        return Fate.RENEW

    def _after_refusal(self, ended: ProcessEnd, reason: str, error: CutwaterError) -> Fate:
        """Another generation may have been promoted, or its promotion requested, meanwhile."""
        fate = decide_fate(ended, self._look())
        if fate in (Fate.REPLACED, Fate.SPARE):
            return fate
        with suppress(CutwaterError):  # what follows is not known: `error` is told
            last = self._last()
            if successor := self._other_successor(last, ended):
                for claim in self._own(last, reason):
                    if claim.generation != successor:
                        self._give_up(self._claims.abort_unasked, claim.generation, f"{successor} is promoted")
                return self._give_over(last, successor, reason)
        self._report(f"the next generation cannot be started automatically: {error}")
        return self._wait(ended) if isinstance(error, UsageError) and self._has_losses() else Fate.ENDS

    def _other_successor(self, last: Milestone, ended: ProcessEnd) -> Generation | None:
        """Return the candidate whose promotion is requested, unless it is the one that has ended."""
        successor = self._successor(last)
        return None if successor == ended.generation else successor

    def _own(self, last: Milestone, reason: str) -> list[Claim]:
        """Return the open claims for `reason` that may follow `last`, also those of an earlier stack."""
        return [one for one in self._claims.known().coming(last) if one.reason == reason]

    def _give_up(self, give_up: Callable[[Generation, str], object], generation: Generation, why: str) -> None:
        try:
            in_turn(lambda: give_up(generation, why), self._pause)
        except CutwaterError as error:
            self._report(f"warning: {generation} is not given up: {error}")

    def _last(self) -> Milestone:
        """Return the newest milestone. Raises UsageError if no generation may follow it here."""
        last, released = promoted(self._cluster, self._job), release(self._cluster, topics.milestones(self._job))
        if last is None or last.generation != self._stage.promoted:
            raise UsageError(f"{last.generation if last else 'no generation'} is promoted now")
        if released is not None:
            raise UsageError(f"the job was released to region {released.to} after milestone {released.token}")
        return last

    def _has_losses(self) -> bool:
        try:
            return bool(newest_provable(self._cluster, self._job).lost)
        except CutwaterError:
            return False

    def _follow(self, last: Milestone, ended: Generation, reason: str) -> Generation:
        def require(planned: Planned) -> None:
            self._last()  # other claimers are fenced, so what follows from it is this claim
            self._require(planned)

        if ended != last.generation:
            # A candidate; while its promotion is requested it blocks others.
            in_turn(lambda: self._claims.abort(ended, reason), self._pause)
        claim = in_turn(lambda: self._claim(last, reason, require), self._pause)
        # Despite a hold: nothing commits meanwhile.
        in_turn(lambda: self._claims.promote(claim.generation, despite_hold_by="cutwater up"), self._pause)
        return claim.generation

    def _claim(self, last: Milestone, reason: str, require: Callable[[Planned], object]) -> Claim:
        """Claim the next generation, or return the claim of an earlier turn or stack."""
        own = [one for one in self._own(last, reason) if one.generation not in self._ended]
        if not own:
            return self._claims.start(None, None, False, reason, self._copies(), require)
        require(Planned(own[-1], again=True))
        return own[-1]
