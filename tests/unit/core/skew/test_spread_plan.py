"""The spreading plan: versions, who may be spread, and where a producer sends the next event."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.topics.spread_plan import NO_PLAN, PLAN_KEY, fold_record, producer_key
from cutwater.core.errors import ProtocolError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.skew.spread_plan import (
    KEYS_MAX,
    Adoption,
    Placement,
    Spread,
    SpreadKey,
    home_partition,
    order_losses,
    spread_obstacles,
    spread_partitions,
    with_key,
    without_key,
)
from support.events import counting
from support.protocol_samples import milestone

keys = st.text(min_size=1, max_size=5)


def made(plan: Spread | None, key: str, partitions: tuple[int, ...] = (0, 1)) -> Spread:
    return with_key(plan, "flights", key, partitions, 4, "me", "", 1)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), max_size=20))
def test_versions_grow_by_one_and_a_change_is_reversible(steps: list[tuple[bool, str]]) -> None:
    """After any steps the plan holds what was spread last and not taken back; a refused step changes nothing."""
    plan, held, version = None, dict[str, int](), 0
    for puts, key in steps:
        if not puts and key not in held:
            with pytest.raises(UsageError, match="is not spread"):
                without_key(plan, key, "me", "", 1)
            continue
        version += 1
        plan = made(plan, key) if puts else without_key(plan, key, "me", "", 1)
        if puts:
            held[key] = version
        else:
            del held[key]
        assert plan.version == version
        assert {one.key: one.since_version for one in plan.keys} == held
        assert [one.key for one in plan.keys] == sorted(held)


def test_a_plan_is_bounded() -> None:
    many = tuple(SpreadKey(f"k{n:04}", (0, 1), 1) for n in range(KEYS_MAX))
    full = Spread("flights", 7, 4, many, "me", "", 1)
    with pytest.raises(UsageError, match="1000 keys already"):
        made(full, "new")
    assert made(full, "k0000", (1, 2)).version == 8


@given(keys, st.lists(st.integers(0, 100), min_size=2, max_size=9), st.data())
def test_a_key_gets_its_own_partition_and_the_least_loaded(key: str, load: list[int], data: st.DataObject) -> None:
    over = data.draw(st.integers(2, len(load)))
    found = spread_partitions(key, over, load)
    home = home_partition(key.encode(), len(load))
    others = sorted(load[at] for at in range(len(load)) if at != home)[: over - 1]
    assert home in found
    assert len(set(found)) == over
    assert sorted(load[at] for at in found if at != home) == others
    for wrong in (1, len(load) + 1):
        with pytest.raises(UsageError, match="2 to all of them"):
            spread_partitions(key, wrong, load)


@given(st.integers(2, 9), st.integers(1, 200), st.integers(0, 5))
def test_events_go_to_each_partition_in_turn(over: int, events: int, first: int) -> None:
    """As evenly as possible for each key, and other keys as ever."""
    plan = made(made(None, "hot", tuple(range(over))), "other", (0, 3))
    placement = Placement(plan, 9, first)
    found = Counter(placement.partition(b"hot") for _ in range(events))
    assert max(found.values()) - min(found.get(at, 0) for at in range(over)) <= 1
    assert (placement.partition(b"cold"), placement.partition(None)) == (None, None)
    assert placement.version == 2


def test_a_partition_that_is_not_there_gets_nothing() -> None:
    """A plan made for another topic does not stop a producer: what is left of it counts, two at least."""
    plan = made(made(None, "two", (0, 1, 7)), "one", (0, 7))
    placement = Placement(plan, 2)
    assert {placement.partition(b"two") for _ in range(9)} == {0, 1}
    assert placement.partition(b"one") is None


def job(folder: Path, measures: str = "", source: str = "") -> Job:
    text = counting.job_text("flights").replace("key: key,", f"key: key, {source}")
    (folder / "event.avsc").write_text(counting.SCHEMA)
    (folder / "job.yaml").write_text(text + measures)
    return load_job(folder / "job.yaml")


def test_an_order_in_the_source_is_told_as_lost(tmp_path: Path) -> None:
    """By measure; sums and counts lose nothing."""
    plain = job(tmp_path)
    assert (order_losses(plain), spread_obstacles(plain, compacted=False)) == ((), ())
    ordered = job(tmp_path, "  newest: {measure: last, field: value}\n  least: {measure: min, field: value}\n")
    [loss] = order_losses(ordered)
    assert loss.startswith("newest (last): of events with the same event time")


def test_what_may_not_be_spread_is_told(tmp_path: Path) -> None:
    plain = job(tmp_path)
    assert "compacted" in spread_obstacles(plain, compacted=True)[0]
    assert "job orders" in spread_obstacles(replace(plain, upstream="orders"), compacted=False)[0]
    computed = job(tmp_path, source="columns: {group: {sql: 'upper(key)', type: string}},")
    computed = replace(computed, key_field="group")
    assert "computed" in spread_obstacles(computed, compacted=False)[0]


def test_the_newest_version_and_each_producers_newest_word_count() -> None:
    """Whatever is left by compaction, an older version never replaces a newer one."""
    one, two = made(None, "a"), made(made(None, "a"), "b")
    said = [Adoption("flights", "p", version, version) for version in (1, 2)]
    state = NO_PLAN
    for key, record in (
        *((PLAN_KEY, plan) for plan in (two, one)),
        *((producer_key("p"), word) for word in said),
        (producer_key("q"), replace(said[0], producer="q")),
    ):
        state = fold_record(state, key, protocol_records.encode(record))
    assert state.plan == two
    assert {each.producer: each.version for each in state.adoptions} == {"p": 2, "q": 1}
    state = fold_record(state, producer_key("q"), None)
    assert [each.producer for each in state.adoptions] == ["p"]


@pytest.mark.parametrize("key", [PLAN_KEY, producer_key("p")])
def test_a_record_of_another_kind_is_refused(key: bytes) -> None:
    """Never guessed at."""
    with pytest.raises(ProtocolError):
        fold_record(NO_PLAN, key, protocol_records.encode(milestone(1)))
