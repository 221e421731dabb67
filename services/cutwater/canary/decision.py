"""What a gate has decided, done as an operator would, and on the job's audit log as that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.process_name import process_name
from cutwater.adapters.topics.audit_log import AuditLog
from cutwater.core.access.actions import DROP_CANARY, PROMOTE_CANARY, Action
from cutwater.core.access.audit_log import CANARY, Actor, AuditedAction, AuditRecord
from cutwater.core.canary.gate import GateVerdict
from cutwater.core.errors import CutwaterError
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import Comparison
from cutwater.operations.generations.claims import Claims


class GateDecision:
    """Promotes or drops a candidate. May be repeated: a process that dies in between repeats it."""

    def __init__(self, job: Job, settings: Settings, log: Any) -> None:
        self._job, self._log = job, log
        self._claims = Claims(settings.cluster, job, settings.region, now_ms)
        self._audit = AuditLog(settings.cluster, settings.replication_factor, settings.min_insync_replicas)

    def carry_out(self, found: Comparison) -> None:
        """Do what the comparison says. Raises as `Claims.promote` and `Claims.abort`."""
        promotes = found.verdict == GateVerdict.PROMOTE
        action = PROMOTE_CANARY if promotes else DROP_CANARY
        given = {"compared": found.compared, "differing": found.differing, "reason": found.reason}
        self._log.warning("the gate has decided", verdict=found.verdict, reason=found.reason)
        with self.audited(action, str(found.generation), given) as told:
            if promotes:
                self._claims.promote(found.generation)
            else:
                self._claims.abort(found.generation, f"canary: {found.reason}")
            told.record_result("its promotion is requested" if promotes else "it is given up")

    def audited(self, action: Action, on: str, given: Mapping[str, object]) -> AuditedAction:
        """Return the block that an action on an object runs in."""
        by = Actor(CANARY, "", CANARY, process_name())
        return AuditedAction(action, self._job.name, on, by, uuid4().hex, now_ms, self._write, given)

    def _write(self, one: AuditRecord) -> None:
        try:
            self._audit.write(one)
        except CutwaterError as error:  # the decision does not depend on the log
            self._log.warning("an action is missing on the audit log", action=one.action, error=str(error))
