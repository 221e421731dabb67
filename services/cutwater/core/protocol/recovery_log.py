"""The recovery trail: what a start of a service found, what it decided, and how long each step took.

It explains the behaviour of a service afterwards. No decision depends on it, and a service that cannot write it
continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

from cutwater.core.protocol.generation import Generation

RUNNING, STOPPED = "running", "stopped"
CADENCE = "cadence"
"""The service of records that are no starts, but decisions of the cadence controller (`core.cadence`)."""
PRELOAD = "preload"
"""The service of records that are no starts, but loads of a candidate (`core.pacing.reader_loads`)."""
ENTRIES_MAX = 64
"""The most facts, and the most steps, of one start; more are dropped."""
TEXT_MAX = 2_000
"""The most characters of a decision or of a fact's value."""


class Fact(NamedTuple):
    name: str
    value: str


class Took(NamedTuple):
    name: str
    took_ms: int


class ProcessIdentity(NamedTuple):
    """The process that starts. `process`: its host and process id, as in `node-1:4711`."""

    job: str
    generation: Generation
    service: str
    process: str


@dataclass(frozen=True)
class Recovery:
    """One start. `attempt`: 0 if the service has no attempts."""

    job: str
    generation: Generation
    service: str
    process: str
    attempt: int
    begun_ms: int
    outcome: str
    """`running`: the service works; `stopped`: the start ended with an error, which is the decision."""
    decision: str
    found: tuple[Fact, ...]
    steps: tuple[Took, ...]

    @property
    def took_ms(self) -> int:
        return sum(step.took_ms for step in self.steps)


class StartRecord:
    """The record of one start, written once: at the end of its `with` block, or earlier by `running`."""

    def __init__(
        self,
        who: ProcessIdentity,
        now_ms: Callable[[], int],
        seconds: Callable[[], float],
        write: Callable[[Recovery], None],
    ) -> None:
        """`now_ms`: the wall clock. `seconds`: a monotonic clock, for the steps."""
        self._who = who
        self._seconds = seconds
        self._record = write
        self._begun_ms = now_ms()
        self._found: dict[str, str] = {}
        self._steps: list[Took] = []
        self._decision = ""
        self._attempt = 0
        self._is_written = False

    def __enter__(self) -> StartRecord:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None:
            self.running()
        else:
            self.stopped(error)

    def record_facts(self, **facts: object) -> None:
        """Record facts by name; a later value replaces an earlier one."""
        for name, value in facts.items():
            if name in self._found or len(self._found) < ENTRIES_MAX:
                self._found[name] = str(value)[:TEXT_MAX]

    def record_decision(self, decision: str, attempt: int = 0) -> None:
        self._decision, self._attempt = decision[:TEXT_MAX], attempt

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a step, including one that raises."""
        since = self._seconds()
        try:
            yield
        finally:
            self.record_step(name, self._seconds() - since)

    def record_step(self, name: str, seconds: float) -> None:
        if len(self._steps) < ENTRIES_MAX:
            self._steps.append(Took(name, round(seconds * 1000)))

    def running(self) -> None:
        """Write that the start is over and the service works. Only the first outcome is written."""
        self._write_outcome(RUNNING)

    def stopped(self, error: BaseException) -> None:
        if not self._is_written:
            self._decision = (str(error) or type(error).__name__)[:TEXT_MAX]
            self._write_outcome(STOPPED)

    def _write_outcome(self, outcome: str) -> None:
        if self._is_written:
            return
        self._is_written = True
        facts = tuple(Fact(name, value) for name, value in self._found.items())
        who = self._who._asdict()
        self._record(
            Recovery(
                **who,
                attempt=self._attempt,
                begun_ms=self._begun_ms,
                outcome=outcome,
                decision=self._decision,
                found=facts,
                steps=tuple(self._steps),
            )
        )


def unrecorded() -> StartRecord:
    """Return an account that is not written."""
    nobody = ProcessIdentity("", Generation(1, "local"), "", "")
    return StartRecord(nobody, lambda: 0, lambda: 0.0, lambda _: None)


def select_starts(records: Iterable[Recovery], service: str | None, since_ms: int | None) -> list[Recovery]:
    """Return the starts of `service` at or after `since_ms`; None for all. Records of CADENCE and PRELOAD are no
    starts."""
    return [
        one
        for one in records
        if service in (None, one.service)
        and one.service not in (CADENCE, PRELOAD)
        and (since_ms is None or one.begun_ms >= since_ms)
    ]
