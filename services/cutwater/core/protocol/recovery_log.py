"""The recovery trail: what a start of a service found, what it decided, and how long each step took.

For people who ask afterwards why a service did what it did. Nothing reads it to decide anything, and a service
that cannot write it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

from cutwater.core.protocol.generation import Generation

RUNNING, STOPPED = "running", "stopped"
ENTRIES_MAX = 64
"""Facts, and steps, of one start: more are left out."""
TEXT_MAX = 2_000
"""Characters of a decision or of a fact's value."""


class Fact(NamedTuple):
    """Something that a start found."""

    name: str
    value: str


class Took(NamedTuple):
    """A step of a start, and its duration in ms."""

    name: str
    took_ms: int


class Who(NamedTuple):
    """Which process starts: `process` is its host and number, as in `node-1:4711`."""

    job: str
    generation: Generation
    service: str
    process: str


@dataclass(frozen=True)
class Recovery:
    """One start. `attempt` is 0 where the service does not count them."""

    job: str
    generation: Generation
    service: str
    process: str
    attempt: int
    begun_ms: int
    outcome: str
    """`running`: the service does its work; `stopped`: the start ended with an error, which is the decision."""
    decision: str
    found: tuple[Fact, ...]
    steps: tuple[Took, ...]

    @property
    def took_ms(self) -> int:
        """All steps together."""
        return sum(step.took_ms for step in self.steps)


class Account:
    """Takes note of one start, and hands it over once: at the end of its `with` block, or before by `running`."""

    def __init__(
        self,
        who: Who,
        now_ms: Callable[[], int],
        seconds: Callable[[], float],
        write: Callable[[Recovery], None],
    ) -> None:
        """`now_ms` is the wall clock; `seconds` never goes back and measures the steps."""
        self._who = who
        self._seconds = seconds
        self._write = write
        self._begun_ms = now_ms()
        self._found: dict[str, str] = {}
        self._steps: list[Took] = []
        self._decision = ""
        self._attempt = 0
        self._told = False

    def __enter__(self) -> Account:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None:
            self.running()
        else:
            self.stopped(error)

    def found(self, **facts: object) -> None:
        """Take note of facts by name; a later value takes the place of an earlier one."""
        for name, value in facts.items():
            if name in self._found or len(self._found) < ENTRIES_MAX:
                self._found[name] = str(value)[:TEXT_MAX]

    def decided(self, decision: str, attempt: int = 0) -> None:
        """What this start does now."""
        self._decision, self._attempt = decision[:TEXT_MAX], attempt

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a step; one that raises is kept too."""
        since = self._seconds()
        try:
            yield
        finally:
            self.took(name, self._seconds() - since)

    def took(self, name: str, seconds: float) -> None:
        """A step that was measured elsewhere."""
        if len(self._steps) < ENTRIES_MAX:
            self._steps.append(Took(name, round(seconds * 1000)))

    def running(self) -> None:
        """The start is over, and the service does its work. Only the first end of a start is told."""
        self._tell(RUNNING)

    def stopped(self, error: BaseException) -> None:
        """The start has ended with an error."""
        if not self._told:
            self._decision = (str(error) or type(error).__name__)[:TEXT_MAX]
            self._tell(STOPPED)

    def _tell(self, outcome: str) -> None:
        if self._told:
            return
        self._told = True
        facts = tuple(Fact(name, value) for name, value in self._found.items())
        who = self._who._asdict()
        self._write(
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


def unrecorded() -> Account:
    """An account that nobody reads."""
    nobody = Who("", Generation(1, "local"), "", "")
    return Account(nobody, lambda: 0, lambda: 0.0, lambda _: None)


def chosen(records: Iterable[Recovery], service: str | None, since_ms: int | None) -> list[Recovery]:
    """Those of a service that began at or after a moment; all where neither is given."""
    return [
        one for one in records if service in (None, one.service) and (since_ms is None or one.begun_ms >= since_ms)
    ]
