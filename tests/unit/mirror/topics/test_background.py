"""A periodic query is asked once at a time, not sooner than it is due, and its error reaches the caller."""

from __future__ import annotations

import threading

import pytest

from cutwater.core.errors import UnavailableError
from cutwater.mirror.topics.background import PeriodicQuery
from support.views.changelogs import until


def test_one_query_at_a_time_and_none_before_it_is_due() -> None:
    now_s, gate = [100.0], threading.Event()
    query: PeriodicQuery[int] = PeriodicQuery("t", 5.0, lambda: now_s[0])
    assert not query.due, "the first one is due after the pause"
    now_s[0] = 105.0
    assert query.due
    query.begin(lambda: 7 if gate.wait(20) else 0)
    now_s[0] = 200.0
    assert (query.due, query.answered, query.asked_s) == (False, False, 105.0)
    gate.set()
    until(lambda: query.answered, "the answer")
    assert not query.due, "its answer is not taken yet"
    assert query.take() == 7
    assert query.due
    assert not query.answered


def test_the_first_query_may_be_due_at_once() -> None:
    assert PeriodicQuery("t", 5.0, lambda: 0.0, at_once=True).due


def test_an_error_is_raised_when_the_answer_is_taken() -> None:
    query: PeriodicQuery[int] = PeriodicQuery("t", 5.0, lambda: 0.0, at_once=True)

    def fail() -> int:
        raise UnavailableError("no broker answers")

    query.begin(fail)
    until(lambda: query.answered, "the error")
    with pytest.raises(UnavailableError, match="no broker answers"):
        query.take()
    assert not query.answered
