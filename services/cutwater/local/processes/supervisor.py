"""Supervises several children: started in order, restarted within limits, ended in reverse order."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType, TracebackType

from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import (
    Finished,
    GiveUp,
    Repetition,
    Restart,
    decide,
    error_for,
    repeated,
)

TICK_SECONDS = 0.1
REQUESTED_GRACE_SECONDS_MAX = 5.0
"""For a child that is restarted because it is stuck: the others are not supervised meanwhile."""
SILENT_SECONDS_MAX = 2.0
"""A start that takes longer than this is reported, and at its end its duration."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _always_ready() -> bool:
    return True


def _needed(_exit_code: int) -> str | None:
    return None


@dataclass
class Supervised:
    """A child, its readiness check, and the time limits of its start and end (seconds)."""

    child: Child
    ready: Callable[[], bool] = _always_ready
    ready_seconds_max: float = 60.0
    grace_seconds: float = 15.0
    essential: bool = True
    """True if its permanent end ends the others."""
    reason_to_continue: Callable[[int], str | None] = _needed
    """Called with the exit code when a restart is not allowed: why the others continue without it, or None."""
    progress: Callable[[], object] | None = None
    """What it has reached. If that does not change, the number of equal failures in a row is limited. Raises
    CutwaterError if it is not known; None for no such limit."""
    restarts: list[float] = field(default_factory=list, init=False)
    repetition: Repetition | None = field(default=None, init=False)
    restart_at: float | None = field(default=None, init=False)
    finished: bool = field(default=False, init=False)


class Supervisor:
    """Owns its children: leaving the `with` block ends all of them.

    `report`: called with one line about each restart. `failed`: called at each unsuccessful end with the child's
    name, its exit code and its last message. `clock`: monotonic seconds. `more`: called at each check for members
    to start. `requested`: called at each check, and may call `restart`.
    """

    def __init__(
        self,
        members: Sequence[Supervised],
        *,
        report: Callable[[str], None] = lambda line: None,
        failed: Callable[[str, int, str], None] = lambda _name, _exit_code, _said: None,
        clock: Callable[[], float] = time.monotonic,
        more: Callable[[], Sequence[Supervised]] = tuple,
        requested: Callable[[Supervisor], object] = lambda _supervisor: None,
    ) -> None:
        self._members = list(members)
        self._more = more
        self._requested = requested
        self._report = report
        self._failed = failed
        self._clock = clock
        self._stop = threading.Event()

    @property
    def members(self) -> tuple[Supervised, ...]:
        return tuple(self._members)

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, stop: threading.Event) -> bool:
        """Start the children in order, each once the previous one is ready.

        Return False if `stop` was set meanwhile. If a start fails, end all started children and raise a
        CutwaterError with the path and the end of the child's log.
        """
        try:
            for member in self._members:
                member.child.start()
                if not self._wait_until_ready(member, stop):
                    self.stop()
                    return False
        except BaseException:
            self.stop()
            raise
        return True

    def run(self, stop: threading.Event) -> None:
        """Watch and restart the children until `stop` is set or all have finished; then end them. Raise a
        CutwaterError, after ending all, if a child must not be restarted."""
        self._stop = stop
        try:
            while not all(member.finished for member in self._members) and not stop.is_set():
                self.check()
                stop.wait(TICK_SECONDS)
        finally:
            self.stop()

    def pause(self, seconds: float) -> None:
        """Wait in a call of `run`, at most until its event is set."""
        self._stop.wait(seconds)

    def restart(self, names: Sequence[str], why: str, env: Mapping[str, str]) -> bool:
        """Restart the first of these children that runs, with settings in addition; return False if none does.

        Its end counts as no failure, its start as a restart.
        """
        running = [one for one in self._members if not one.finished and one.restart_at is None]
        member = next((one for name in names for one in running if one.child.name == name), None)
        if member is None:
            return False
        self._report(f"restarting {member.child.name}: {why}")
        member.child.stop(min(member.grace_seconds, REQUESTED_GRACE_SECONDS_MAX))
        member.child.env |= env
        member.restart_at = self._clock()
        return True

    def check(self) -> None:
        """Check every child once: note ends, do the restarts that are due, start new members."""
        self._requested(self)
        for member in self._more():
            self._members.append(member)
            self._start_one(member)
        for member in self._members:
            if member.finished:
                continue
            member.child.bound_log()
            if member.restart_at is not None:
                self._restart_when_due(member)
            else:
                self._note_end(member)

    def stop(self) -> None:
        """End all children in reverse order of start. Every one is tried; the first error is raised at the end."""
        errors: list[CutwaterError] = []
        for member in reversed(self._members):
            try:
                member.child.stop(member.grace_seconds)
            except CutwaterError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _wait_until_ready(self, member: Supervised, stop: threading.Event) -> bool:
        child, began = member.child, self._clock()
        deadline, told = began + member.ready_seconds_max, False
        while not member.ready():
            exit_code = child.poll()
            if exit_code is not None and (why := member.reason_to_continue(exit_code)):
                self._continue_without(member, exit_code, why)
                return not stop.is_set()
            if exit_code is not None:
                raise error_for(
                    exit_code,
                    f"{child.name} ended with exit code {exit_code} before it was ready. {child.describe_end()}",
                )
            if self._clock() > deadline:
                raise UnavailableError(
                    f"{child.name} was not ready within {member.ready_seconds_max:g} s. {child.describe_end()}"
                )
            if not told and self._clock() - began >= SILENT_SECONDS_MAX:
                told = True
                self._report(f"starting {child.name} …")
            if stop.wait(TICK_SECONDS / 2):
                return False
        if told:
            self._report(f"{child.name} is ready after {self._clock() - began:.1f} s")
        return not stop.is_set()

    def _note_end(self, member: Supervised) -> None:
        child, exit_code = member.child, member.child.poll()
        if exit_code is None:
            return
        # Kill the rest of its session: a remaining process could still write while the next one starts.
        child.kill()
        if exit_code:
            self._failed(child.name, exit_code, child.last_words())
        decision = decide(child.restart, exit_code, member.restarts, self._clock())
        if isinstance(decision, Restart) and (stuck := self._stuck(member, exit_code)):
            decision = stuck
        if isinstance(decision, Finished):
            member.finished = True
        elif isinstance(decision, GiveUp) and (why := member.reason_to_continue(exit_code)):
            self._continue_without(member, exit_code, why)
        elif isinstance(decision, GiveUp) and not member.essential:
            self._continue_without(member, exit_code, decision.reason)
        elif isinstance(decision, GiveUp):
            raise error_for(
                exit_code,
                f"{child.name} ended with exit code {exit_code} and is not restarted: {decision.reason}. "
                f"{child.describe_end()}",
            )
        else:
            member.restart_at = self._clock() + decision.delay_seconds
            self._report(
                f"{child.name} ended with exit code {exit_code}; restarting in {decision.delay_seconds:g} s "
                f"(log: {child.log_path})"
            )

    def _stuck(self, member: Supervised, exit_code: int) -> GiveUp | None:
        """Count a failure, and return the decision if too many in a row were equal."""
        if member.progress is None:
            return None
        try:
            reached = member.progress()
        except CutwaterError:  # without brokers no process can work: such failures do not count
            member.repetition = None
            return None
        now_ms = int(self._clock() * 1_000)
        member.repetition = repeated(member.repetition, reached, exit_code, member.child.last_words(), now_ms)
        return member.repetition.give_up()

    def _continue_without(self, member: Supervised, exit_code: int, why: str) -> None:
        member.finished = True
        self._report(
            f"{member.child.name} ended with exit code {exit_code} and is not restarted: {why}; the others "
            f"continue without it (log: {member.child.log_path})"
        )

    def _restart_when_due(self, member: Supervised) -> None:
        if member.restart_at is not None and self._clock() >= member.restart_at:
            member.restart_at = None
            member.restarts.append(self._clock())
            self._start_one(member)

    def _start_one(self, member: Supervised) -> None:
        """Start a member beside those that run. Raises CutwaterError if that fails and they need it."""
        try:
            member.child.start()
        except CutwaterError as error:
            if member.essential and member.reason_to_continue(error.exit_code) is None:
                raise
            member.finished = True
            self._report(f"{error}; the others continue without it")


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C, SIGTERM and a closed terminal set. Main thread only; restores the handlers."""
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()

    # An ignored signal stays ignored: `nohup` must still protect from a closed terminal.
    wanted = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in wanted}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
