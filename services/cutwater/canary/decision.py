"""What a gate has decided, done as an operator would, and on the job's audit log as that."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.process_name import process_name
from cutwater.adapters.topics.audit_log import AuditLog
from cutwater.core.access.actions import DROP_CANARY, PROMOTE_CANARY, Action
from cutwater.core.access.audit_log import CANARY, Actor, AuditedAction, AuditRecord
from cutwater.core.canary.gate import GateVerdict
from cutwater.core.errors import CutwaterError, NotYetError
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import Comparison
from cutwater.operations.generations.claim_turns import in_turn
from cutwater.operations.generations.claims import Claims


class GateDecision:
    """Promotes or drops a candidate. May be repeated: a process that dies in between repeats it."""

    def __init__(
        self, job: Job, settings: Settings, log: Any, pause: Callable[[float], object] = time.sleep
    ) -> None:
        self._job, self._log, self._pause = job, log, pause
        self._claims = Claims(settings.cluster, job, settings.region, now_ms)
        self._audit = AuditLog(settings.cluster, settings.replication_factor, settings.min_insync_replicas)

    def reason_to_wait(self, found: Comparison) -> str:
        """Return why what the comparison says cannot be done yet; empty if it can. Raises as `to_promote`."""
        if found.verdict == GateVerdict.PROMOTE:
            try:
                self._claims.to_promote(found.generation)
            except NotYetError as error:
                return str(error)
        return ""

    def carry_out(self, found: Comparison) -> bool:
        """Do what the comparison says; return False if that is to drop it, and its promotion was requested
        meanwhile. Raises as `Claims.promote` and `Claims.abort`."""
        promotes = found.verdict == GateVerdict.PROMOTE
        action = PROMOTE_CANARY if promotes else DROP_CANARY
        given = {"compared": found.compared, "differing": found.differing, "reason": found.reason}
        self._log.warning("the gate has decided", verdict=found.verdict, reason=found.reason)
        with self.audited(action, str(found.generation), given) as told:
            if promotes:
                in_turn(lambda: self._claims.promote(found.generation), self._pause)
                told.record_result("its promotion is requested")
                return True
            reason = f"canary: {found.reason}"
            dropped = in_turn(lambda: self._claims.abort_unasked(found.generation, reason), self._pause)
            told.record_result("it is given up" if dropped else "its promotion was requested meanwhile")
            return dropped

    def audited(self, action: Action, on: str, given: Mapping[str, object]) -> AuditedAction:
        """Return the block that an action on an object runs in."""
        by = Actor(CANARY, "", CANARY, process_name())
        return AuditedAction(action, self._job.name, on, by, uuid4().hex, now_ms, self._write, given)

    def _write(self, one: AuditRecord) -> None:
        try:
            self._audit.write(one)
        except CutwaterError as error:  # the decision does not depend on the log
            self._log.warning("an action is missing on the audit log", action=one.action, error=str(error))
