"""Queries to brokers in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

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
