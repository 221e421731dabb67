"""What every verb that changes something does: it asks for the role, and leaves a record on `<job>.audit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.runtime.process_name import process_name, user_name
from cutwater.adapters.topics.audit_log import AuditLog
from cutwater.cli.json_values import json_text
from cutwater.cli.report import iso, print_note
from cutwater.core.access.actions import PREPARE, UP, Action, require_role
from cutwater.core.access.audit_log import CLI, Actor, AuditedAction, AuditRecord
from cutwater.core.errors import UsageError

OF_THE_HOST = (UP, PREPARE)
"""Whoever starts the services has their token, which may have no role."""


def audit_action(
    action: Action,
    settings: Settings,
    cluster: Cluster | None,
    job: str,
    object_: str = "",
    given: Mapping[str, object] | None = None,
) -> AuditedAction:
    """Return the block that the action runs in. `object_`: the job if empty. `given`: the verb's other arguments.

    `cluster`: None if it is not known.

    Raises AccessError if the role does not allow it. A record that cannot be written is printed: the action goes
    on, since it may be the one that an emergency needs.
    """
    from uuid import uuid4  # most verbs change nothing

    by = actor(settings, action)
    write = _Writer(
        AuditLog(cluster, settings.replication_factor, settings.min_insync_replicas) if cluster else None
    )
    return AuditedAction(action, job, object_ or job, by, uuid4().hex, now_ms, write, given)


def actor(settings: Settings, action: Action) -> Actor:
    """Return who runs this command: the token's name and role if tokens have roles, else the user.

    Raises AccessError if the role does not allow the action. It keeps from mistakes; Kafka's ACLs keep others out.
    """
    access = settings.access
    if not access.has_roles:
        return Actor(user_name(), "", CLI, process_name())
    caller = access.caller(settings.api_token.get_secret_value().encode())
    if action in OF_THE_HOST and (caller is None or caller.role is None):
        return Actor(user_name(), "", CLI, process_name())
    caller = require_role(caller, action)
    return Actor(caller.name, str(caller.role), CLI, process_name())


class _Writer:
    """Writes records, and prints those that it cannot write."""

    def __init__(self, log: AuditLog | None) -> None:
        self._log = log

    def __call__(self, one: AuditRecord) -> None:
        try:
            if self._log is None:
                raise UsageError(
                    "its brokers are not known here: set CUTWATER_BOOTSTRAP_SERVERS and CUTWATER_KAFKA_*"
                )
            self._log.write(one)
        except Exception as error:  # any: the action does not depend on it
            print_note(f"warning: this action is missing on the audit log of {one.job}: {error}")
            print_note(f"its record: {json_text(action_json(one))}")


def action_json(one: AuditRecord) -> dict[str, Any]:
    """Return an action as it is printed. `ended`: null if there is no outcome."""
    plain = {name: value for name, value in asdict(one).items() if name != "written_ms"}
    ended = one.ended_ms
    return {
        **plain,
        "arguments": {each.name: each.value for each in one.arguments},
        "begun": iso(one.begun_ms),
        "ended": None if ended is None else iso(ended),
        "ended_ms": ended,
    }
