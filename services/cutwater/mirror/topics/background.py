"""Queries to brokers in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from cutwater.adapters.kafka.client import TIMEOUT_S

T = TypeVar("T")


def run_in_background(name: str, question: Callable[[], T]) -> Future[T]:
    """Return a future of the answer or the error."""
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:
            answer.set_exception(error)

    # A daemon: the mirror's exit does not wait for brokers that do not answer.
    threading.Thread(target=ask, name=name, daemon=True).start()
    return answer


class PeriodicQuery(Generic[T]):
    """A query that is asked in the background now and then, one at a time. The caller polls."""

    def __init__(self, name: str, every_s: float, clock_s: Callable[[], float], at_once: bool = False) -> None:
        """`every_s`: between two starts. `at_once`: whether the first one is due at once."""
        self._name, self._every_s, self._clock_s = name, every_s, clock_s
        self._pending: Future[T] | None = None
        self.asked_s = clock_s() - (every_s if at_once else 0.0)
        """When the last query began, or this object was made."""

    @property
    def due(self) -> bool:
        """Whether a query may begin."""
        return self._pending is None and self._clock_s() - self.asked_s >= self._every_s

    @property
    def answered(self) -> bool:
        """Whether an answer, or an error, waits to be taken."""
        return self._pending is not None and self._pending.done()

    def begin(self, question: Callable[[], T]) -> None:
        """Ask in a thread."""
        self.asked_s = self._clock_s()
        self._pending = run_in_background(self._name, question)

    def take(self) -> T:
        """Return the answer, or raise the query's error. Call it if `answered`: before that it waits."""
        pending, self._pending = self._pending, None
        if pending is None:
            raise ValueError(f"no query {self._name} was begun")
        return pending.result(TIMEOUT_S)
