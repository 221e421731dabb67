"""What watch does by itself, on the job's audit log as what operators do."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.process_name import process_name
from cutwater.adapters.topics.audit_log import AuditLog
from cutwater.core.access import actions
from cutwater.core.access.audit_log import WATCH, Actor, AuditedAction, AuditRecord
from cutwater.core.errors import CutwaterError
from cutwater.core.monitoring.alerts import HOLD, PAUSE_MIRROR, RESTART, SHED
from cutwater.core.monitoring.safe_actions import SafeAction

_ACTIONS = {
    RESTART: actions.RESTART,
    PAUSE_MIRROR: actions.PAUSE_MIRROR,
    SHED: actions.SHED,
    HOLD: actions.HOLD,
}


class ActionAudit:
    """Call it for the block that an action runs in."""

    def __init__(self, job: str, audit: AuditLog, log: Any) -> None:
        self._job, self._audit, self._log = job, audit, log

    def __call__(self, action: SafeAction) -> AuditedAction:
        by = Actor(WATCH, "", WATCH, process_name())
        given = {"alert": action.alert, "value": action.value}
        return AuditedAction(
            _ACTIONS[action.kind], self._job, action.target, by, uuid4().hex, now_ms, self._write, given
        )

    def _write(self, one: AuditRecord) -> None:
        try:
            self._audit.write(one)
        except CutwaterError as error:  # the action may be what brings the brokers back
            self._log.warning("an action is missing on the audit log", action=one.action, error=str(error))
