"""The load by shard and key: against a count of every event in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.job.shards import ShardMap
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.skew.load import LoadTally, ShardLoad, milestone_range
from support.protocol_samples import milestone

TOPIC, SHARDS = "changelog", ShardMap(8, 2)


class Row(NamedTuple):
    partition: int
    offset: int
    shard: int
    key: str
    row: bytes
    count: int


Events = list[list[tuple[str, int]]]
"""By epoch: key and window of each event."""


def shard_of(key: str) -> int:
    return sum(key.encode()) % SHARDS.shards


def driven(epochs: Events) -> tuple[list[Milestone], list[Row]]:
    """Milestones and rows as a driver would write them: a row's count is of all epochs so far."""
    ends, counts = [0, 0], Counter[tuple[str, int]]()
    made, rows = list[Milestone](), list[Row]()
    for number, events in enumerate(epochs):
        counts.update(events)
        written = [0, 0]
        for key, window in sorted(set(events)):
            at = SHARDS.partition(shard_of(key))
            rows.append(Row(at, ends[at], shard_of(key), key, f"{key}/{window}".encode(), counts[key, window]))
            ends[at] += 1
            written[at] += 1
        told: dict[str, Any] = {
            "changelog_cut": Cut.of_topic(TOPIC, ends),
            "source_cut": Cut.of_topic("events", [sum(map(len, epochs[: number + 1])), 0]),
            "events": len(events),
            "rejected": 0,
            "late": 0,
        }
        one = milestone(number, made[-1] if made else None, **told)
        made.append(replace(one, partition_rows=tuple(written)))
    return made, rows


def counted(milestones: list[Milestone], rows: list[Row], wanted: int, claimed: bool = False) -> ShardLoad:
    range_ = milestone_range(milestones, wanted, claimed, 10**9)
    assert range_ is not None
    since = range_.since.changelog_cut.as_dict() if range_.since else {}
    tally = LoadTally(range_, SHARDS, measured=True)
    for row in rows:
        first = next((end for place, end in since.items() if place.partition == row.partition), 0)
        if row.offset >= first:
            tally.add(*row)
    return tally.load(one_row_each=True)


keys = st.sampled_from(["a", "b", "c", "dd"])
epochs_of = st.lists(st.lists(st.tuples(keys, st.integers(0, 1)), max_size=12), min_size=2, max_size=8)


@given(epochs_of, st.integers(1, 8))
def test_with_every_milestone_known_each_event_is_counted_once(epochs: Events, wanted: int) -> None:
    """A generation's first milestone has no rows before it: then nothing is counted twice, whatever is asked."""
    made, rows = driven(epochs)
    count = min(wanted, len(epochs))
    if 2 * count < len(epochs):  # an older row may be unknown then
        return
    load = counted(made, rows, wanted)
    newest = epochs[-count:]
    assert {one.key: one.events for one in load.keys} == Counter(key for some in newest for key, _ in some)
    assert load.overcount == 0
    by_shard = Counter(shard_of(key) for some in newest for key, _ in some)
    assert {at: n for at, n in enumerate(load.shards) if n} == by_shard
    assert [sum(one) for one in load.cells] == [len(some) for some in newest]
    assert load.source == {0: sum(map(len, newest)), 1: 0}
    assert load.rows_by_partition == tuple(
        sum(SHARDS.partition(shard_of(key)) == at for some in newest for key, _ in set(some)) for at in (0, 1)
    )


@given(epochs_of, st.integers(1, 3))
def test_the_sum_of_what_is_counted_twice_is_told(epochs: Events, wanted: int) -> None:
    """No key has fewer events than it had, and all of them together have exactly `overcount` more."""
    made, rows = driven(epochs)
    count = min(wanted, len(epochs))
    load = counted(made, rows, wanted)
    true = Counter(key for some in epochs[-count:] for key, _ in some)
    found = {one.key: one.events for one in load.keys}
    assert all(found[key] >= many for key, many in true.items())
    assert load.overcount == load.events - sum(true.values())
    assert all(found[key] - true[key] <= load.overcount for key in found)


def test_seeds_of_a_claimed_generation_are_no_load() -> None:
    """Its first milestone contains the parent's state."""
    made, rows = driven([[("a", 0)] * 1_000, [("a", 0), ("b", 0)], [("b", 0)]])
    load = counted(made, rows, wanted=30, claimed=True)
    assert {one.key: one.events for one in load.keys} == {"a": 1, "b": 2}
    assert (len(load.milestones), load.warm_up, load.overcount) == (2, 1, 0)


def test_a_row_written_twice_is_no_event() -> None:
    """An attempt that repeats an epoch writes the same counts once more."""
    made, rows = driven([[("a", 0)] * 5, [("a", 0)] * 2])
    again = [*rows, rows[-1]._replace(offset=rows[-1].offset)]
    assert counted(made, again, 2).keys[0].events == 7


def test_without_a_count_the_weight_is_rows() -> None:
    made, rows = driven([[("a", 0)] * 5, [("a", 0), ("b", 0)]])
    range_ = milestone_range(made, 5, False, 10**9)
    assert range_ is not None
    tally = LoadTally(range_, SHARDS, measured=False)
    for row in rows:
        tally.add(*row._replace(count=0))
    load = tally.load(one_row_each=True)
    assert ({one.key: one.events for one in load.keys}, load.overcount) == ({"a": 2, "b": 1}, None)


@given(st.integers(1, 60), st.integers(1, 30), st.booleans(), st.integers(0, 5), st.integers(1, 500))
def test_the_range_is_contiguous_and_bounded(
    many: int, wanted: int, claimed: bool, first: int, records_max: int
) -> None:
    """Warm-up and counted milestones follow each other, and no row of a milestone before is read."""
    made, _ = driven([[("a", 0)] * 3, [("a", 0), ("b", 1)]] * many)
    found = made[first:]
    range_ = milestone_range(found, wanted, claimed, records_max)
    if range_ is None:
        assert len(found) <= 1
        return
    every = [*range_.warm_up, *range_.counted]
    assert every == found[-len(every) :]
    assert range_.counted[-1] == found[-1]
    assert 1 <= len(range_.counted) <= wanted
    assert len(range_.warm_up) <= len(range_.counted)
    assert len(range_.counted) == 1 or range_.records <= records_max
    assert range_.since == next((one for one, other in pairwise(found) if other == every[0]), None)
    if range_.since is None:
        assert every[0].epoch == 0
    assert range_.before == next((one for one, other in pairwise(found) if other == range_.counted[0]), None)


@pytest.mark.parametrize("held", [20, 200])
def test_the_sketch_errs_by_no_more_than_it_says(held: int) -> None:
    """Zipf's law over 3,000 keys in few counters: too small by at most `keys_error`, and never too large."""
    chance = random.Random(5)
    weights = [1 / (rank + 1) ** 1.2 for rank in range(3_000)]
    events = [[(f"k{one}", 0) for one in chance.choices(range(3_000), weights, k=4_000)] for _ in range(5)]
    made, rows = driven(events)
    range_ = milestone_range(made, 5, False, 10**9)
    assert range_ is not None
    tally = LoadTally(range_, SHARDS, measured=True, keys_held=held)
    for row in rows:
        tally.add(*row)
    load, true = tally.load(True), Counter(key for some in events for key, _ in some)
    assert load.keys_error <= 20_000 / (held // 2)
    assert load.keys_error > 0
    for one in load.keys:
        assert true[one.key] - load.keys_error <= one.events <= true[one.key]
    assert load.keys[0].key == "k0"
    shown = {one.key for one in load.keys}
    assert all(key in shown for key, many in true.items() if many > 2 * load.keys_error) or held == 20
