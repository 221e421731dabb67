"""The way back after a canary's promotion: the old generation keeps counting, as a candidate that nobody sees.

It is the claim that 'cutwater rollback' to the last milestone before the promotion would make. That command
finds it, and has only to promote it: nothing starts, and nothing is read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import candidates, promoted
from cutwater.adapters.topics.commit_stream import newest_milestone
from cutwater.core.access.actions import DROP, START, Action
from cutwater.core.access.audit_log import AuditedAction
from cutwater.core.checks.replication import Replication
from cutwater.core.errors import NotYetError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Milestone
from cutwater.operations.generations.claim_check import require_works
from cutwater.operations.generations.claim_turns import in_turn
from cutwater.operations.generations.claims import Claims, copies_of
from cutwater.operations.generations.requests import GenerationRequest, Planned

LOOK_S = 0.5
Audited = Callable[[Action, str, Mapping[str, object]], AuditedAction]
"""Returns the block that an action on an object runs in, with its arguments."""


class WayBack:
    """Keeps the generation before a promoted canary counting. `job`: that generation's."""

    def __init__(self, job: Job, settings: Settings, stopped: threading.Event, audited: Audited, log: Any) -> None:
        self._job, self._settings, self._stopped = job, settings, stopped
        self._audited, self._log = audited, log
        self._cluster = settings.cluster
        self._claims = Claims(self._cluster, job, settings.region, now_ms)

    def keep(self, canary: Generation, before: Generation, keep_ms: int) -> None:
        """Wait until the canary is promoted, then keep the generation before for that long, or until a rollback.
        May be repeated. Raises CutwaterError if brokers do not answer, or the state is gone."""
        if not keep_ms or not self._await_promotion(canary):
            return
        last = newest_milestone(self._cluster, self._job.name, before)
        if last is None:
            raise UsageError(
                f"{before} has no milestone on the commit stream any more: there is no way back to it"
            )
        claim = self._claim(last, canary)
        if claim is not None and self._await_end(claim, canary, keep_ms):
            reason = f"kept for {keep_ms // 1000} s"
            with self._audited(DROP, str(claim.generation), {"reason": reason}) as action:
                why = f"{reason} after {canary} was promoted"
                dropped = in_turn(lambda: self._claims.abort_unasked(claim.generation, why), self._stopped.wait)
                action.record_result("it is given up" if dropped else "a rollback to it was requested meanwhile")

    def _await_promotion(self, canary: Generation) -> bool:
        """Return whether the canary is promoted; False if it is given up, or this process is stopped."""
        while not self._stopped.wait(LOOK_S):
            last = promoted(self._cluster, self._job.name)
            if last is not None and last.generation == canary:
                return True
            if last is not None and last.generation.number > canary.number:
                return False
            if not candidates(self._cluster, self._job.name).require(canary).open:
                # A withdrawal may have come too late: what is promoted behind this look was asked for before.
                last = promoted(self._cluster, self._job.name)
                return last is not None and last.generation == canary
        return False

    def _claim(self, last: Milestone, canary: Generation) -> Claim | None:
        """Claim the way back, or find the claim of an earlier process; None if that one is given up, or another
        generation replaces the canary before."""
        words = GenerationRequest(str(last.token), None, True, f"kept for a rollback to {last.token}")
        earlier = [
            one
            for one in candidates(self._cluster, self._job.name).by_id.values()
            if one.claim.reason == words.reason
        ]
        if earlier:
            return earlier[-1].claim if earlier[-1].open else None
        settings = self._settings
        copies = copies_of(self._cluster, settings.replication_factor, settings.min_insync_replicas)
        with self._audited(START, str(last.token), {"reason": words.reason}) as action:
            claim = self._claimed(words, copies, canary)
            if claim is None:
                action.record_result("nothing is claimed: another generation was promoted, or this process ends")
                return None
            action.record_result(f"{claim.generation} is claimed")
        self._log.info("the old generation keeps counting", generation=str(claim.generation), to=str(last.token))
        return claim

    def _claimed(self, words: GenerationRequest, copies: Replication, canary: Generation) -> Claim | None:
        """Claim, as soon as no other generation is being promoted; None if one was promoted."""
        while True:
            try:
                return in_turn(lambda: self._claims.ask(words, copies, self._require), self._stopped.wait).claim
            except NotYetError as error:
                self._log.info("the way back waits", reason=str(error))
            if self._stopped.wait(LOOK_S):
                return None
            newest = promoted(self._cluster, self._job.name)
            if newest is not None and newest.generation != canary:
                return None

    def _require(self, planned: Planned) -> None:
        if not planned.begun and not planned.done:
            settings = self._settings
            require_works(self._cluster, self._job, settings, planned.claim, settings.snapshots)

    def _await_end(self, claim: Claim, canary: Generation, keep_ms: int) -> bool:
        """Wait until the time is over; False if the claim was promoted, given up or overtaken before."""
        while not self._stopped.wait(LOOK_S):
            known = candidates(self._cluster, self._job.name).require(claim.generation)
            last = promoted(self._cluster, self._job.name)
            if not known.open or known.promoting or (last is not None and last.generation != canary):
                return False
            if now_ms() >= claim.at_ms + keep_ms:
                return True
        return False
