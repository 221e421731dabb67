"""Owners and their standbys: who holds what, and who is left out for a while."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.query.peer_placement import AWAY_S, STANDBYS_MAX, Silences, held_partitions, owner_of, shares_of
from cutwater.core.state.partition_share import held_by, owners

names = st.lists(st.sampled_from([f"http://{letter}" for letter in "abcdefghij"]), min_size=1, unique=True)


@given(names, st.data())
def test_a_standby_holds_what_its_owner_holds(named: list[str], data: st.DataObject) -> None:
    """And standbys divide nothing: with them or without, each owner holds the same."""
    cuts = data.draw(st.lists(st.booleans(), min_size=len(named), max_size=len(named)))
    groups: list[list[str]] = []
    for name, cut in zip(named, cuts, strict=True):
        if cut or not groups or len(groups[-1]) > STANDBYS_MAX:
            groups.append([name])
        else:
            groups[-1].append(name)
    shares, partitions = shares_of(groups), 12
    for owner, *standbys in groups:
        alone = held_by(owner, owners([group[0] for group in groups], partitions))
        found = {held_partitions(one, shares, partitions) for one in (owner, *standbys)}
        assert found == {alone if len(groups) > 1 else None}
        assert {owner_of(one, shares) for one in (owner, *standbys)} == {owner}


def test_without_peers_one_holds_all() -> None:
    assert held_partitions("", {}, 3) is None


@pytest.mark.parametrize(
    ("groups", "peer", "says"),
    [
        ([["a", "a"]], "a", "named twice: a"),
        ([["a", "s"], ["b", "s"]], "a", "named twice: s"),
        ([["a", *"bcdef"]], "a", "a has 5 standbys"),
        ([["a", "s"]], "c", "peer c is none of a"),
        ([["a"], ["b"], ["c"], ["d"]], "a", "4 peers cannot share 3"),
    ],
)
def test_what_cannot_be(groups: list[list[str]], peer: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        held_partitions(peer, shares_of(groups), 3)


moves = st.lists(st.tuples(st.sampled_from(["ask", "silent", "answered"]), st.floats(0, AWAY_S)), max_size=60)


@given(moves)
def test_of_many_questions_one_waits_for_whoever_is_away(steps: list[tuple[str, float]]) -> None:
    """Between two questions to one that does not answer lies the time at least; to one that answers, nothing."""
    silences, now_s, asked_s, away = Silences(), 0.0, None, False
    for what, later_s in steps:
        now_s += later_s
        if what == "silent":
            silences.record_silence("a", now_s)
            away, asked_s = True, now_s
        elif what == "answered":
            silences.record_answer("a")
            away = False
        elif silences.may_ask("a", now_s):
            assert not away or asked_s is None or now_s >= asked_s + AWAY_S
            asked_s = now_s
        else:
            assert away, "one that answers is always asked"
        assert silences.may_ask("b", now_s), "the others are none of its business"


def test_who_was_silent_is_asked_once_the_pause_is_over_and_by_one() -> None:
    """At that very moment, and by the first who asks."""
    silences = Silences(5.0)
    silences.record_silence("a", 10.0)
    assert not silences.may_ask("a", 14.9)
    assert silences.may_ask("a", 15.0)
    assert not silences.may_ask("a", 15.0), "another asks already"
