"""The records of an action: one at its beginning, one with its outcome, whatever happens between them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.topics.audit_log import decode, encode
from cutwater.core.access.actions import ACTIONS, PROMOTE, SNAPSHOT
from cutwater.core.access.audit_log import (
    ARGUMENTS_MAX,
    BEGUN,
    DONE,
    FAILED,
    TEXT_MAX,
    Actor,
    Argument,
    AuditedAction,
    AuditRecord,
    fold_actions,
    select_actions,
)
from cutwater.core.errors import UsageError

BY = Actor("alice", "owner", "cli", "ubuntu@node-1:7")
TEXT = st.text(max_size=40)
MS = st.integers(-(2**40), 2**40)
RECORDS = st.builds(
    AuditRecord,
    id=st.sampled_from(["a", "b", "c"]),
    job=TEXT,
    actor=st.sampled_from(["alice", "bob"]),
    role=TEXT,
    via=TEXT,
    process=TEXT,
    action=st.sampled_from([one.name for one in ACTIONS[:3]]),
    object=TEXT,
    arguments=st.lists(st.builds(Argument, TEXT, TEXT), max_size=3).map(tuple),
    begun_ms=MS,
    written_ms=MS,
    outcome=st.sampled_from([BEGUN, DONE, FAILED]),
    detail=TEXT,
)


class Clock:
    def __init__(self, *times: int) -> None:
        self.times = list(times)

    def __call__(self) -> int:
        return self.times.pop(0)


def test_an_action_is_told_when_it_begins_and_when_it_ends() -> None:
    """The first record is there before anything is done, with all that is known of the action."""
    told: list[AuditRecord] = []
    given = {"reason": "the plan", "partitions": 6, "another": False, "since": None}
    with AuditedAction(PROMOTE, "flights", "g2", BY, "id", Clock(5, 9), told.append, given) as action:
        [first] = told
        assert (first.outcome, first.begun_ms, first.ended_ms, first.detail) == (BEGUN, 5, None, "")
        action.record_result("requested")
    assert first.arguments == (Argument("reason", "the plan"), Argument("partitions", "6"))
    assert (first.actor, first.role, first.via, first.process) == BY
    assert (first.id, first.job, first.action, first.object) == ("id", "flights", "generation promote", "g2")
    assert told == [first, replace(first, outcome=DONE, detail="requested", written_ms=9)]
    assert told[1].ended_ms == 9


@pytest.mark.parametrize(
    ("error", "said"),
    [(UsageError("no such generation"), "no such generation"), (KeyboardInterrupt(), "Keyboard")],
)
def test_an_action_that_fails_tells_its_error(error: BaseException, said: str) -> None:
    """The error is not swallowed, and a result that was told before does not hide it."""
    told: list[AuditRecord] = []

    def act() -> None:
        with AuditedAction(SNAPSHOT, "flights", "flights", BY, "id", Clock(5, 9), told.append) as action:
            action.record_result("taken")
            raise error

    with pytest.raises(type(error)):
        act()
    assert [one.outcome for one in told] == [BEGUN, FAILED]
    assert told[1].detail.startswith(said)


def test_an_action_that_may_not_be_recorded_is_not_done() -> None:
    """If the writer raises at the beginning, the block is not entered."""

    def deaf(one: AuditRecord) -> None:
        raise UsageError(one.outcome)

    done: list[str] = []

    def act() -> None:
        with AuditedAction(SNAPSHOT, "flights", "flights", BY, "id", Clock(5, 9), deaf):
            done.append("it was done")

    with pytest.raises(UsageError, match=BEGUN):
        act()
    assert done == []


def test_texts_and_arguments_are_bounded_and_time_does_not_go_back() -> None:
    told: list[AuditRecord] = []
    many = {f"{number}": "x" * (2 * TEXT_MAX) for number in range(2 * ARGUMENTS_MAX)}
    with AuditedAction(PROMOTE, "flights", "o" * 9_000, BY, "id", Clock(50, 9), told.append, many) as action:
        action.record_result("d" * 9_000)
    assert len(told[1].arguments) == ARGUMENTS_MAX
    assert {len(one.value) for one in told[1].arguments} == {TEXT_MAX}
    assert len(told[1].detail) == len(told[1].object) == TEXT_MAX
    assert told[1].ended_ms == 50
    assert len(encode(told[1])) < 1 << 20


@given(st.lists(RECORDS, max_size=12))
def test_each_action_is_listed_once_with_its_outcome(records: list[AuditRecord]) -> None:
    """In the order of the beginnings; a second outcome of the same action changes nothing."""
    found = fold_actions(records)
    assert sorted(one.id for one in found) == sorted({one.id for one in records})
    assert [one.begun_ms for one in found] == sorted(one.begun_ms for one in found)
    for one in found:
        own = [each for each in records if each.id == one.id]
        ends = [each for each in own if each.outcome != BEGUN]
        assert one == (ends or own)[0]


@given(st.lists(RECORDS, max_size=12), MS, st.sampled_from([None, "alice", "carol"]))
def test_what_is_selected_is_what_was_asked_for(records: list[AuditRecord], since: int, actor: str | None) -> None:
    found = select_actions(records, since, actor, ACTIONS[0].name)
    wanted = [one for one in records if one.begun_ms >= since and one.action == ACTIONS[0].name]
    assert found == [one for one in wanted if actor in (None, one.actor)]
    assert select_actions(records, None, None, None) == records


@given(RECORDS)
def test_every_record_survives_the_wire(one: AuditRecord) -> None:
    assert decode(encode(one)) == one
