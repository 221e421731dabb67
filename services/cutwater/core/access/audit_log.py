"""The audit log: one record when an action begins, and one with its outcome.

A process that is killed in the middle leaves the first one. No decision of the protocol depends on the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NamedTuple

from cutwater.core.access.actions import Action

BEGUN, DONE, FAILED = "begun", "done", "failed"
CLI, CONSOLE, WATCH, CANARY = "cli", "console", "watch", "canary"
ARGUMENTS_MAX = 32
TEXT_MAX = 2_000
"""The most characters of a text of a record."""


class Argument(NamedTuple):
    name: str
    value: str


class Actor(NamedTuple):
    """Who acts."""

    name: str
    """The name of a token, else the user and host of the process."""
    role: str
    """The token's role; empty if tokens have no roles."""
    via: str
    """`cli`, `console`, `watch` or `canary`."""
    process: str
    """User, host and process number, as in `ubuntu@node-1:4711`; for the console the browser's address, too."""


@dataclass(frozen=True)
class AuditRecord:
    id: str
    """The same in both records of an action."""
    job: str
    actor: str
    role: str
    via: str
    process: str
    action: str
    object: str
    arguments: tuple[Argument, ...]
    begun_ms: int
    written_ms: int
    outcome: str
    """`begun`, `done` or `failed`."""
    detail: str
    """What came of it, or the error."""

    @property
    def ended_ms(self) -> int | None:
        """The time of the outcome; None if there is none."""
        return None if self.outcome == BEGUN else self.written_ms


class AuditRecords(NamedTuple):
    """The newest part of a log, oldest first."""

    readable: Sequence[AuditRecord]
    unreadable: int = 0
    """Records of a schema that is not known, as of a newer version."""

    @property
    def problem(self) -> str:
        """What is missing; empty if nothing is."""
        if not self.unreadable:
            return ""
        return f"{self.unreadable:,} record(s) of the audit log cannot be read: their schema is not known here"


class AuditedAction:
    """One action. Entering the block writes its first record, leaving it the one with the outcome.

    `begin` alone is for an action that ends the log's brokers, `done` alone for one that makes the log.
    """

    def __init__(
        self,
        action: Action,
        job: str,
        object_: str,
        by: Actor,
        id_: str,
        now_ms: Callable[[], int],
        write: Callable[[AuditRecord], None],
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        """`id_`: no other action's. `write`: decides what a record that cannot be written means."""
        told = [Argument(name, str(value)[:TEXT_MAX]) for name, value in (arguments or {}).items() if value]
        who = {"actor": by.name, "role": by.role, "via": by.via, "process": by.process}
        what = {"action": action.name, "object": object_[:TEXT_MAX], "arguments": tuple(told[:ARGUMENTS_MAX])}
        begun_ms = now_ms()
        when = {"begun_ms": begun_ms, "written_ms": begun_ms, "outcome": BEGUN, "detail": ""}
        self._first = AuditRecord(**{"id": id_, "job": job, **who, **what, **when})  # type: ignore[arg-type]
        self._now_ms, self._write = now_ms, write
        self._detail = ""

    def record_result(self, detail: str) -> None:
        """Record what came of it; the outcome has it."""
        self._detail = detail

    def begin(self) -> None:
        """Write the first record."""
        self._write(self._first)

    def done(self, detail: str) -> None:
        """Write that it is done, and what came of it."""
        self._end(DONE, detail)

    def __enter__(self) -> AuditedAction:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None:
            self.done(self._detail)
        else:
            self._end(FAILED, str(error) or type(error).__name__)

    def _end(self, outcome: str, detail: str) -> None:
        # A wall clock may go back: an outcome is never before its beginning.
        at_ms = max(self._first.begun_ms, self._now_ms())
        self._write(replace(self._first, written_ms=at_ms, outcome=outcome, detail=detail[:TEXT_MAX]))


def fold_actions(records: Iterable[AuditRecord]) -> list[AuditRecord]:
    """Return one record for each action, by the time of its beginning: that with the outcome, if there is one."""
    found: dict[str, AuditRecord] = {}
    for one in records:
        known = found.get(one.id)
        if known is None or (known.outcome == BEGUN and one.outcome != BEGUN):
            found[one.id] = one
    return sorted(found.values(), key=lambda one: one.begun_ms)


def select_actions(
    actions: Iterable[AuditRecord], since_ms: int | None, actor: str | None, action: str | None
) -> list[AuditRecord]:
    """Return the actions that began at or after `since_ms`, of one actor and of one kind; None for all."""
    return [
        one
        for one in actions
        if (since_ms is None or one.begun_ms >= since_ms)
        and actor in (None, one.actor)
        and action in (None, one.action)
    ]
