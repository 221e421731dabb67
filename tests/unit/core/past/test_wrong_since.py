"""The search for the milestone since which a row is wrong, against a look at every milestone."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.past.row_history import Known, Stretch, Unknown
from cutwater.core.past.wrong_since import WrongSince, wrong_since

ROWS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30)
"""By milestone: whether the row is wrong, and whether a log tells it."""


def is_wrong(values: Any) -> bool:
    return bool(values and values["wrong"])


def stretches(rows: list[tuple[bool, bool]]) -> list[Stretch]:
    found: list[Stretch] = []
    for at, (wrong, known) in enumerate(rows, 1):
        found.append(Known(at, at, {"wrong": wrong}) if known else Unknown(at, at))
    return found


@given(ROWS)
def test_where_every_milestone_is_known_the_answer_is_exact(rows: list[tuple[bool, bool]]) -> None:
    """It is the first milestone of the wrong ones that lead to the newest, however often it was wrong before."""
    truth = [wrong for wrong, _ in rows]
    found = wrong_since(stretches([(wrong, True) for wrong in truth]), is_wrong)
    if not truth[-1]:
        assert found == WrongSince(None)
        return
    expected = len(truth)
    while expected > 1 and truth[expected - 2]:
        expected -= 1
    assert found.first_wrong == expected
    assert found.last_right == (expected - 1 or None)
    assert found.exact is (expected > 1)


@given(ROWS)
def test_the_bounds_are_known_milestones_with_nothing_known_between(rows: list[tuple[bool, bool]]) -> None:
    found = wrong_since(stretches(rows), is_wrong)
    if not rows[-1][1]:
        assert found == WrongSince(None, newest_known=False)
    if found.first_wrong is None:
        assert not (rows[-1][1] and rows[-1][0])
        return
    assert rows[found.first_wrong - 1] == (True, True)
    right = found.last_right or 0
    assert right == 0 or rows[right - 1] == (False, True)
    assert not any(known for _, known in rows[right : found.first_wrong - 1])
    assumed = {at for one in found.assumed for at in range(one.first, one.last + 1)}
    assert assumed == {at for at in range(found.first_wrong, len(rows) + 1) if not rows[at - 1][1]}


@given(st.integers(2, 200), st.data())
def test_snapshots_are_searched_by_bisection(milestones: int, data: st.DataObject) -> None:
    """Only the first and the newest milestone are known: few snapshots give the nearest two that they can."""
    first_wrong = data.draw(st.integers(2, milestones))
    probes = data.draw(st.sets(st.integers(2, milestones - 1), max_size=milestones)) if milestones > 2 else set()
    known: list[Known | Unknown] = [
        Known(1, 1, {"wrong": False}),
        Unknown(2, milestones - 1),
        Known(milestones, milestones, {"wrong": True}),
    ]
    asked: list[int] = []

    def probe(sequence: int) -> Known:
        asked.append(sequence)
        return Known(sequence, sequence, {"wrong": sequence >= first_wrong})

    found = wrong_since([one for one in known if one.first <= one.last], is_wrong, sorted(probes), probe)
    assert found.first_wrong == min([one for one in probes if one >= first_wrong], default=milestones)
    assert found.last_right == max([one for one in probes if one < first_wrong], default=1)
    assert len(asked) <= len(probes).bit_length()


def test_a_snapshot_that_cannot_be_used_is_passed_over() -> None:
    known: list[Stretch] = [Known(1, 1, None), Unknown(2, 8), Known(9, 9, {"wrong": True})]
    found = wrong_since(
        known, is_wrong, [3, 5, 7], lambda at: None if at == 5 else Known(at, at, {"wrong": at > 3})
    )
    assert (found.first_wrong, found.last_right, found.exact) == (7, 3, False)
