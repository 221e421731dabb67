"""Safe actions of watch: decided by the pure policy, recorded before and after, and done through what is there.

A process of `cutwater up` is restarted by its supervisor, a mirror is paused by its control record.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.runtime.restart_request import RestartRequest, write_request
from cutwater.core.errors import CutwaterError
from cutwater.core.monitoring.alerts import HOLD, PAUSE_MIRROR, SHED
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.monitoring.safe_actions import KEPT_MAX, ActionRules, SafeAction, decide_action
from cutwater.core.protocol.generation import Generation
from cutwater.operations.generations.claim_turns import in_turn
from cutwater.operations.generations.claims import Claims
from cutwater.operations.regions.mirror_control import control_mirror
from cutwater.watch.metrics import Metrics

BEGUN, DONE, FAILED = "begun", "done", "failed"


class ActionLog:
    """The port of every action: what was done, kept over restarts of watch, logged and counted.

    An action is written before it is done: after a crash in between it counts as done.
    """

    def __init__(self, path: Path, metrics: Metrics, log: Any) -> None:
        self._path, self._metrics, self._log = path, metrics, log
        self.done = _read(path)

    def begin(self, action: SafeAction) -> None:
        """Record what is done next. Raises OSError if it cannot be written: then it must not be done."""
        self.done = [*self.done, action][-KEPT_MAX:]
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps([one._asdict() for one in self.done]) + "\n", encoding="utf-8")
        temporary.replace(self._path)
        self._report(action, BEGUN, "")

    def end(self, action: SafeAction, outcome: str, detail: str = "") -> None:
        """Record what came of it: DONE or FAILED."""
        self._report(action, outcome, detail)

    def _report(self, action: SafeAction, outcome: str, detail: str) -> None:
        self._metrics.acted(action.kind, outcome)
        self._log.warning("safe action", outcome=outcome, **action._asdict(), detail=detail)


class SafeActions:
    """Does at most one action at a call."""

    def __init__(
        self,
        settings: Settings,
        actions: ActionLog,
        audited: Callable[[SafeAction], AbstractContextManager[object]],
        claims: Claims,
        now_ms: Callable[[], int],
        pause: Callable[[float], object],
    ) -> None:
        """`audited`: returns the block that an action runs in."""
        self._pause = pause
        self._claims = claims
        self._settings, self._actions, self._audited, self._now_ms = settings, actions, audited, now_ms
        self._rules = rules_of(settings)

    @property
    def may_hold(self) -> bool:
        """Whether it has to know the candidates."""
        return HOLD in self._rules.allowed

    def act(self, state: JobStatus) -> None:
        """Do what the policy says now. What fails is recorded, and no reason to end."""
        action = decide_action(state, self._rules, self._actions.done, self._now_ms())
        if action is None:
            return
        try:
            self._actions.begin(action)
            with self._audited(action):
                self._do(action, state)
        except (CutwaterError, OSError) as error:
            self._actions.end(action, FAILED, str(error))
        else:
            self._actions.end(action, DONE)

    def _do(self, action: SafeAction, state: JobStatus) -> None:
        if action.kind == HOLD:
            why = f"alert {action.alert}"
            candidate = Generation.parse(action.target)
            in_turn(lambda: self._claims.hold(candidate, action.value, "watch", why), self._pause)
            return
        if action.kind == PAUSE_MIRROR:
            control_mirror(self._settings.cluster, state.job, action.target, True, action.at_ms)
            return
        env = {"CUTWATER_TRIGGER_MS": str(action.value)} if action.kind == SHED else {}
        why = f"alert {action.alert}, {action.kind}"
        request = RestartRequest(action.target, str(state.generation), why, action.at_ms, env)
        write_request(self._settings.data_dir, request)


def rules_of(settings: Settings) -> ActionRules:
    return ActionRules(
        settings.safe_actions,
        settings.watch_action_after_ms,
        settings.watch_action_apart_ms,
        settings.origin_region,
        settings.trigger_ms,
    )


def _read(path: Path) -> list[SafeAction]:
    """Return the actions of earlier processes; none if there is no file, or it is of another form."""
    try:
        return [SafeAction(**one) for one in json.loads(path.read_text(encoding="utf-8"))][-KEPT_MAX:]
    except (OSError, ValueError, TypeError):
        return []
