"""The audit log as the console shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cutwater.core.access.audit_log import AuditRecord, fold_actions

SHOWN_MAX = 100
NO_ACTION = "No operator has changed anything yet."


def actions(records: Iterable[AuditRecord]) -> list[dict[str, Any]]:
    """Return the newest actions, newest first."""
    return [_action(one) for one in reversed(fold_actions(records)[-SHOWN_MAX:])]


def _action(one: AuditRecord) -> dict[str, Any]:
    return {
        "begun_ms": one.begun_ms,
        "ended_ms": one.ended_ms,
        "actor": one.actor,
        "role": one.role,
        "via": one.via,
        "action": one.action,
        "object": one.object,
        "arguments": [one._asdict() for one in one.arguments],
        "outcome": one.outcome,
        "detail": one.detail,
    }
