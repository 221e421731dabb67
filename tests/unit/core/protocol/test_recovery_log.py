"""The recovery trail's account of one start: told once, with what was found, decided and measured."""

from __future__ import annotations

import pytest

from cutwater.core.errors import DivergenceError
from cutwater.core.protocol.recovery_log import (
    ENTRIES_MAX,
    RUNNING,
    STOPPED,
    TEXT_MAX,
    Fact,
    ProcessIdentity,
    Recovery,
    StartRecord,
    Took,
    select_starts,
)
from support.protocol_samples import GENERATION

WHO = ProcessIdentity("flights", GENERATION, "publisher", "node-1:7")


class Clock:
    """Seconds that the test moves."""

    def __init__(self) -> None:
        self.seconds = 10.0

    def __call__(self) -> float:
        return self.seconds


def test_a_start_is_told_once_with_its_steps() -> None:
    """Facts, decision and durations by the clock that was given; later ends of the same start are not told."""
    told: list[Recovery] = []
    clock = Clock()
    account = StartRecord(WHO, lambda: 5_000, clock, told.append)
    with account as start:
        with start.step("fencing"):
            clock.seconds += 0.25
        start.record_facts(milestone="g1-local-00000000:3", parts=2)
        start.record_facts(parts=0)
        start.record_decision("go on", attempt=4)
    account.running()
    account.stopped(DivergenceError("much later"))
    [one] = told
    assert (one.job, one.service, one.process, one.begun_ms, one.attempt) == (*WHO[:1], *WHO[2:], 5_000, 4)
    assert (one.outcome, one.decision) == (RUNNING, "go on")
    assert one.found == (Fact("milestone", "g1-local-00000000:3"), Fact("parts", "0"))
    assert (one.steps, one.took_ms) == ((Took("fencing", 250),), 250)


def test_a_start_that_fails_tells_its_error_and_the_step_that_it_failed_in() -> None:
    """The error is not swallowed."""
    told: list[Recovery] = []
    clock = Clock()

    def start() -> None:
        with StartRecord(WHO, lambda: 5_000, clock, told.append) as account, account.step("comparing"):
            clock.seconds += 1
            raise DivergenceError("the checkpoint was rolled back")

    with pytest.raises(DivergenceError):
        start()
    [one] = told
    assert (one.outcome, one.decision, one.steps) == (
        STOPPED,
        "the checkpoint was rolled back",
        (Took("comparing", 1_000),),
    )


def test_an_account_is_bounded() -> None:
    """Whatever is told, a record stays small."""
    told: list[Recovery] = []
    with StartRecord(WHO, lambda: 0, Clock(), told.append) as start:
        for number in range(2 * ENTRIES_MAX):
            start.record_step(f"step {number}", 0)
            start.record_facts(**{f"fact_{number}": "x" * 2 * TEXT_MAX})
        start.record_decision("y" * 2 * TEXT_MAX)
    [one] = told
    assert (len(one.steps), len(one.found)) == (ENTRIES_MAX, ENTRIES_MAX)
    assert max(len(fact.value) for fact in one.found) == len(one.decision) == TEXT_MAX


def test_starts_are_chosen_by_service_and_moment() -> None:
    """Both bounds are inclusive and may be left out."""
    made: list[Recovery] = []
    for begun_ms, service in ((1, "driver"), (2, "publisher"), (3, "driver")):
        StartRecord(WHO._replace(service=service), lambda at=begun_ms: at, Clock(), made.append).running()
    assert select_starts(made, None, None) == made
    assert [one.begun_ms for one in select_starts(made, "driver", None)] == [1, 3]
    assert [one.begun_ms for one in select_starts(made, None, 2)] == [2, 3]
