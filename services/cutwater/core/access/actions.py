"""The actions of operators: every change that a verb or the console makes to a job, with the role that it needs.

Events that are produced are not among them, nor what only writes files of the caller's.
"""

from __future__ import annotations

from typing import NamedTuple

from cutwater.core.access.roles import AccessError, Caller, Role


class Action(NamedTuple):
    name: str
    """As in a record and in `cutwater audit`; that of its verb."""
    role: Role
    on: str
    """What its object is."""


_OPERATOR, _OWNER = Role.OPERATOR, Role.OWNER

UP = Action("up", _OPERATOR, "job")
DOWN = Action("down", _OPERATOR, "job")
DELETE = Action("down --delete", _OWNER, "job")
PREPARE = Action("prepare", _OPERATOR, "job")
REGISTER = Action("schemas register", _OPERATOR, "job")
CHAOS = Action("chaos", _OPERATOR, "plan")
START = Action("generation start", _OPERATOR, "parent milestone")
LATE_REPLAY = Action("late replay", _OPERATOR, "parent milestone")
PROMOTE = Action("generation promote", _OWNER, "generation")
HOLD = Action("generation hold", _OPERATOR, "generation")
RELEASE_HOLD = Action("generation release", _OWNER, "generation")
SCHEDULE = Action("generation schedule", _OWNER, "generation")
DROP = Action("generation abort", _OWNER, "generation")
START_CANARY = Action("canary start", _OPERATOR, "parent milestone")
PROMOTE_CANARY = Action("canary promote", _OWNER, "generation")
DROP_CANARY = Action("canary drop", _OWNER, "generation")
PRUNE_GENERATIONS = Action("generation prune", _OWNER, "job")
ROLLBACK = Action("rollback", _OWNER, "milestone")
PRUNE = Action("prune", _OWNER, "job")
REPLAY_LETTERS = Action("dead-letters replay", _OPERATOR, "topic")
REPAIR = Action("verify --repair", _OPERATOR, "place")
SNAPSHOT = Action("snapshots create", _OPERATOR, "job")
PRUNE_SNAPSHOTS = Action("snapshots prune", _OWNER, "store")
FAILOVER = Action("failover", _OWNER, "origin region")
SWITCHOVER = Action("switchover", _OWNER, "origin region")
RELEASE = Action("release", _OWNER, "target region")
DECIDE_FORK = Action("forks decide", _OWNER, "generation")
PAUSE_MIRROR = Action("mirror pause", _OPERATOR, "origin region")
RESUME_MIRROR = Action("mirror resume", _OPERATOR, "origin region")
RESYNC = Action("mirror resync", _OWNER, "topic")
WITHDRAW_RESYNC = Action("mirror resync --withdraw", _OPERATOR, "topic")
SPREAD = Action("skew spread", _OPERATOR, "key")
UNSPREAD = Action("skew unspread", _OPERATOR, "key")

ACTIONS = (
    *(UP, DOWN, DELETE, PREPARE, REGISTER, CHAOS, START, LATE_REPLAY, PROMOTE, HOLD, RELEASE_HOLD, SCHEDULE),
    *(DROP, START_CANARY, PROMOTE_CANARY, DROP_CANARY, PRUNE_GENERATIONS, ROLLBACK),
    *(PRUNE, REPLAY_LETTERS, REPAIR, SNAPSHOT, PRUNE_SNAPSHOTS, FAILOVER, SWITCHOVER, RELEASE, DECIDE_FORK),
    *(PAUSE_MIRROR, RESUME_MIRROR, RESYNC, WITHDRAW_RESYNC, SPREAD, UNSPREAD),
)
RESTART = Action("watch restart", _OPERATOR, "process")
SHED = Action("watch shed", _OPERATOR, "process")
OF_WATCH = (RESTART, SHED)
"""What watch does by itself, if the settings allow it; no verb does it. It also pauses a mirror."""
OF_THE_CONSOLE = (PROMOTE, HOLD, RELEASE_HOLD, DROP, SNAPSHOT, PAUSE_MIRROR, RESUME_MIRROR)
"""Those that the console's pages offer."""


def require_role(caller: Caller | None, action: Action) -> Caller:
    """Return the caller. Raises AccessError if its role does not allow the action."""
    if caller is None or caller.role is None:
        raise AccessError(
            f"'{action.name}' needs the role {action.role}, and this token has none: it is not in CUTWATER_TOKENS"
        )
    if not caller.may(action.role):
        raise AccessError(f"'{action.name}' needs the role {action.role}, and {caller.name} is {caller.role}")
    return caller
