"""The policy for skew: it helps where it advises, and is silent where nothing helps."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.skew.recommendations import (
    CHANGELOG,
    EVENTS_MIN,
    FULL,
    NOTHING,
    SOURCE,
    SPREAD,
    UNSPREAD,
    HotKey,
    SkewFacts,
    best_spread,
    fullness,
    recommend,
)
from cutwater.core.skew.spread_plan import home_partition

EVEN = SkewFacts((1_000,) * 4, (), {}, (10,) * 64, 4)
loads = st.lists(st.integers(0, 10_000), min_size=2, max_size=12)
hot = st.lists(st.tuples(st.text("abcdef", min_size=1, max_size=6), st.integers(0, 200_000)), max_size=20)


@st.composite
def facts(draw: st.DrawFn) -> SkewFacts:
    """Cold load by partition, and hot keys in their home partitions."""
    source, keys = draw(loads), dict(draw(hot))
    for key, events in keys.items():
        source[home_partition(key.encode(), len(source))] += events
    heaviest = sorted(keys.items(), key=lambda one: -one[1])
    rows = draw(st.lists(st.integers(0, 1_000), min_size=64, max_size=64))
    return SkewFacts(tuple(source), tuple(HotKey(*one) for one in heaviest), {}, tuple(rows), 4)


@given(facts())
def test_each_step_makes_the_fullest_partition_less_full(known: SkewFacts) -> None:
    """Figures are as told: each spread begins where the one before it has ended."""
    steps = [one for one in recommend(known) if one.kind == SPREAD]
    now = fullness(known.source)
    for one in steps:
        assert one.fullness <= now + 1e-9
        assert one.expected < one.fullness
        assert one.over is not None
        assert 2 <= one.over <= len(known.source)
        now = one.expected
    assert len({one.key for one in steps}) == len(steps)


@given(loads, st.integers(0, 11), st.integers(1, 100_000))
def test_spreading_a_key_loses_no_event(cold: list[int], at: int, events: int) -> None:
    """Where its partition is the fullest, that one gets less."""
    home = at % len(cold)
    before = [float(one) for one in cold]
    before[home] += events
    over, after = best_spread(before, home, events)
    assert abs(sum(after) - sum(before)) < 1e-6 * max(1, sum(before))
    assert after[home] < before[home]
    assert all(after[one] >= before[one] for one in range(len(before)) if one != home)
    assert 2 <= over <= len(cold)


@given(facts())
def test_an_even_or_a_small_load_is_left_alone(known: SkewFacts) -> None:
    even = replace(known, source=(max(EVENTS_MIN, sum(known.source)),) * 3, shard_rows=(500,) * 64)
    assert [one.kind for one in recommend(even)] == [NOTHING]
    few = replace(known, source=(EVENTS_MIN - 1, 0), shard_rows=())
    few = replace(few, shard_rows=(0,) * 64)
    assert [one.kind for one in recommend(few)] == [NOTHING]


@given(facts(), st.text(min_size=1, max_size=20))
def test_where_no_key_may_be_spread_none_is_named(known: SkewFacts, why: str) -> None:
    """The obstacle is in the reason, where spreading would have been the advice."""
    steps = recommend(replace(known, obstacles=(why,)))
    assert SPREAD not in {one.kind for one in steps}
    if fullness(known.source) > FULL and sum(known.source) >= EVENTS_MIN:
        assert [why in one.reason for one in steps if one.kind == SOURCE] == [True]


def test_a_hot_key_is_named_with_its_partitions() -> None:
    """Half of all events in one of four partitions."""
    source = [1_000] * 4
    source[home_partition(b"JFK", 4)] += 4_000
    [step] = recommend(SkewFacts(tuple(source), (HotKey("JFK", 4_000), HotKey("EWR", 90)), {}, (5,) * 64, 4))
    assert (step.kind, step.key, step.over) == (SPREAD, "JFK", 4)
    assert (step.fullness, step.expected) == (2.5, 1.0)
    assert "50%" in step.reason


def test_many_small_keys_need_partitions_and_not_a_plan() -> None:
    source = (4_000, 1_000, 1_000, 1_000)
    [step] = recommend(SkewFacts(source, tuple(HotKey(f"k{n}", 10) for n in range(50)), {}, (5,) * 64, 4))
    assert (step.kind, step.over) == (SOURCE, 8)
    assert "no single key" in step.reason


def test_a_cool_key_comes_off_the_plan_and_a_warm_one_stays() -> None:
    """Between the two bounds nothing changes, so that no key goes back and forth."""
    for events, kinds in ((99, [UNSPREAD]), (150, [NOTHING]), (260, [NOTHING])):
        known = replace(EVEN, keys=(HotKey("JFK", events),), spread={"JFK": (0, 1)})
        assert [one.kind for one in recommend(known)] == kinds


def test_a_changelog_whose_shards_are_uneven_gets_partitions() -> None:
    """If that helps: one shard alone is in one partition, however many there are."""
    rows = [10] * 64
    rows[:16] = [100] * 16
    [step] = recommend(replace(EVEN, shard_rows=tuple(rows)))
    assert (step.kind, step.over) == (CHANGELOG, 6)
    alone = [10] * 64
    alone[0] = 100_000
    assert [one.kind for one in recommend(replace(EVEN, shard_rows=tuple(alone)))] == [NOTHING]
