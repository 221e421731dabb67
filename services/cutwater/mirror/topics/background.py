"""Questions to brokers that nobody waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def asked(name: str, question: Callable[[], T]) -> Future[T]:
    """Its answer, or what it raises, once it is there."""
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:
            answer.set_exception(error)

    # A daemon: whoever ends the mirror does not wait for brokers that are away.
    threading.Thread(target=ask, name=name, daemon=True).start()
    return answer
