"""Is what stands below a cut what a leader's log held? Compared with the logs themselves."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.protocol.leader_epochs import LEADERS_MAX, Leaders, LeaderStart, Match, join_leaders
from cutwater.core.protocol.log_evidence import UNKNOWN

Log = list[tuple[int, int]]
"""Of each record its leader, and which record it is."""


class Grown(NamedTuple):
    logs: dict[int, Log]
    """By leader, as each left it."""


@st.composite
def grown(draw: st.DrawFn) -> Grown:
    """Each leader takes over with all of the log, or with less, and writes on."""
    logs: dict[int, Log] = {}
    log: Log = []
    number = 0
    for epoch in range(draw(st.integers(1, 6))):
        log = log[: draw(st.integers(0, len(log)))] if draw(st.booleans()) else list(log)
        for _ in range(draw(st.integers(0, 4))):
            log.append((epoch, number))
            number += 1
        logs[epoch] = list(log)
    return Grown(logs)


def led(log: Log) -> list[LeaderStart]:
    return [LeaderStart(epoch, offset) for offset, (epoch, _) in enumerate(log)]


@given(grown(), st.data())
def test_a_copy_matches_a_cut_where_both_are_of_one_log(made: Grown, data: st.DataObject) -> None:
    """The copy is that of a later leader's log, or of the same one's: nothing else is known of either."""
    told = data.draw(st.sampled_from(sorted(made.logs)), "the leader of the cut")
    held = data.draw(st.sampled_from([one for one in made.logs if one >= told]), "the leader of the copy")
    cut = data.draw(st.integers(0, min(len(made.logs[told]), len(made.logs[held]))), "cut")
    copy = Leaders(0, join_leaders((), led(made.logs[held])))
    same = made.logs[told][:cut] == made.logs[held][:cut]
    assert (copy.match(cut, told) is Match.YES) == same


@given(grown(), st.integers(0, 20))
def test_pieces_add_up(made: Grown, at: int) -> None:
    whole = led(made.logs[max(made.logs)])
    copy = Leaders(0, join_leaders((), whole[:at]))
    copy.add(join_leaders(whole[max(at - 1, 0) : at], whole[at:]))
    for epoch in range(-1, 7):
        for cut in range(len(whole) + 1):
            assert copy.match(cut, epoch) is Leaders(0, join_leaders((), whole)).match(cut, epoch)


def test_what_is_not_known_is_not_called_the_same() -> None:
    """Of a copy that began before the oldest leader that is known, nothing is said of cuts of older ones."""
    copy = Leaders(0, [LeaderStart(7, 100)])
    assert copy.match(100, 7) is Match.YES
    assert copy.match(101, 6) is Match.NO
    assert copy.match(100, 6) is Match.FORGOTTEN
    assert Leaders(100, [LeaderStart(7, 100)]).match(100, 6) is Match.YES, "it began there"
    assert copy.match(100, UNKNOWN) is Match.YES, "brokers tell no leader"


def test_leaders_have_a_bound() -> None:
    copy = Leaders(0, [LeaderStart(epoch, epoch) for epoch in range(3 * LEADERS_MAX)])
    assert copy.match(0, 0) is Match.YES
    assert copy.match(1, 0) is Match.FORGOTTEN


@pytest.mark.parametrize("again", [1, 3])
def test_a_leader_is_named_once(again: int) -> None:
    assert join_leaders([LeaderStart(1, 0)] * again, [LeaderStart(1, 5), LeaderStart(2, 9)]) == (
        LeaderStart(1, 0),
        LeaderStart(2, 9),
    )
