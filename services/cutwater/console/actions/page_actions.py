"""The actions that pages offer: each with the role, the typed name and the audit record that it needs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from cutwater.adapters.job_files.models import parse_duration
from cutwater.adapters.runtime.process_name import process_name
from cutwater.console.jobs import FollowedJob
from cutwater.console.ports import JobOperator, JobPlace
from cutwater.core.access.actions import (
    DROP,
    HOLD,
    OF_THE_CONSOLE,
    PAUSE_MIRROR,
    PROMOTE,
    RELEASE_HOLD,
    RESUME_MIRROR,
    SNAPSHOT,
    Action,
    require_role,
)
from cutwater.core.access.audit_log import BEGUN, CONSOLE, Actor, AuditedAction, AuditRecord
from cutwater.core.access.roles import AccessError, Caller
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol.generation import Generation
from cutwater.core.util.timestamps import iso

WAIT_S = 5.0
_BY_NAME = {one.name: one for one in OF_THE_CONSOLE}
_READ_ONLY = "the console only reads: CUTWATER_TOKENS gives tokens a role (docs/CONSOLE.md)"


class ActionRequest(NamedTuple):
    """What a page asks for."""

    action: str
    object: str
    """A generation, or the region that a mirror copies; empty for the job itself."""
    confirmation: str
    """The name that the user has typed."""
    reason: str = ""
    duration: str = ""
    """How long a hold lasts, such as 30m."""


class Actions:
    """Performs one action at a time. An action whose first record cannot be written is not performed."""

    def __init__(
        self,
        operate: Callable[[JobPlace], JobOperator],
        clock_ms: Callable[[], int],
        new_id: Callable[[], str],
    ) -> None:
        """`operate`: returns what acts on a job. `new_id`: returns an id that no other action has."""
        self._operate, self._clock_ms, self._new_id = operate, clock_ms, new_id
        self._one_at_a_time = threading.Lock()

    def perform(
        self, job: FollowedJob, wanted: ActionRequest, caller: Caller | None, address: str
    ) -> dict[str, Any]:
        """Perform an action and return what came of it. `address`: of the browser.

        Raises AccessError, UsageError for another name or object, and as the action does.
        """
        action = _BY_NAME.get(wanted.action)
        if action is None:
            raise UsageError(f"'{wanted.action[:40]}' is no action of the console: {', '.join(_BY_NAME)}")
        if caller is None:
            raise AccessError(_READ_ONLY)
        require_role(caller, action)
        _require_typed(action, wanted, job.place.job)
        if not self._one_at_a_time.acquire(timeout=WAIT_S):
            raise UnavailableError("another action is being performed: try again in a moment")
        try:
            return self._audited(job, action, wanted, caller, address)
        finally:
            self._one_at_a_time.release()
            job.kept.forget()

    def _audited(
        self, job: FollowedJob, action: Action, wanted: ActionRequest, caller: Caller, address: str
    ) -> dict[str, Any]:
        operator = self._operate(job.place)
        log = _AuditWriter(operator)
        by = Actor(caller.name, str(caller.role), CONSOLE, f"{process_name()} for {address}")
        object_ = wanted.object or job.place.job
        given = {"for": wanted.duration, "reason": wanted.reason}
        with AuditedAction(
            action, job.place.job, object_, by, self._new_id(), self._clock_ms, log, given
        ) as audited:
            detail = _perform(job, operator, action, wanted, caller.name)
            audited.record_result(detail)
        return {"action": action.name, "object": object_, "detail": detail, "audit_problem": log.problem}


class _AuditWriter:
    """Writes records. The first must be acknowledged; an outcome that is not becomes `problem`."""

    def __init__(self, operator: JobOperator) -> None:
        self._operator = operator
        self.problem = ""

    def __call__(self, one: AuditRecord) -> None:
        try:
            self._operator.write(one)
        except Exception as error:  # any: what is done must be answered, too
            if one.outcome == BEGUN:
                raise UnavailableError(
                    f"nothing was done: the audit log of {one.job} could not be written ({error}). 'cutwater "
                    f"{one.action}' does it without"
                ) from None
            self.problem = f"the outcome is missing on the audit log: {error}"


def _perform(job: FollowedJob, operator: JobOperator, action: Action, wanted: ActionRequest, by: str) -> str:
    if action is SNAPSHOT:
        return f"a snapshot of {job.follower.view.snapshot()} is taken, and being uploaded"
    if action in (PAUSE_MIRROR, RESUME_MIRROR):
        operator.steer(wanted.object, paused=action is PAUSE_MIRROR)
        return f"the mirror of {wanted.object} {'is paused' if action is PAUSE_MIRROR else 'continues'}"
    generation = Generation.parse(wanted.object)
    if action is PROMOTE:
        operator.promote(generation)
        return f"the promotion of {generation} is requested"
    if action is HOLD:
        hold = operator.hold(generation, _length_ms(wanted.duration), by, wanted.reason)
        return f"the promotion of {generation} is held until {iso(hold.until_ms)}"
    if action is RELEASE_HOLD:
        had = operator.release(generation, by, wanted.reason)
        return f"the hold of {generation} has ended" if had else f"{generation} was not held"
    operator.drop(generation, wanted.reason or "given up in the console")
    return f"{generation} is given up"


def _length_ms(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"a hold lasts for a time such as 30m: {error}") from None


def _require_typed(action: Action, wanted: ActionRequest, job: str) -> None:
    """Raise UsageError if the user has not typed the name of what is changed."""
    name = wanted.object if action in (PROMOTE, HOLD, RELEASE_HOLD, DROP) else job
    if wanted.confirmation != name:
        raise UsageError(f"to confirm '{action.name}', type {name}: {wanted.confirmation[:80]!r} was typed")


def access_json(caller: Caller | None) -> dict[str, Any]:
    """Return who asks, and which actions that role may ask for."""
    role = caller.role if caller else None
    may = [one.name for one in OF_THE_CONSOLE if caller is not None and caller.may(one.role)]
    return {"name": caller.name if caller else "", "role": str(role) if role else None, "may": may}
