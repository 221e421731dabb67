"""What a generation takes over from its parent, and who may work for it: plain values."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches
from cutwater.core.errors import FencedError, UsageError
from cutwater.core.events.formats import JSON, EventFormat, RegistryUse
from cutwater.core.events.key_columns import KeyColumn
from cutwater.core.events.rejection import MAX_EVENT_BYTES
from cutwater.core.generations.candidates import Candidate
from cutwater.core.generations.start_state import (
    FIRST,
    StartState,
    floor_behind,
    require_at_work,
    require_kept,
    require_own_changelog,
    require_startable,
    require_unreleased,
)
from cutwater.core.job.column_merges import merging, moves, require_moves
from cutwater.core.job.columns import ComputedColumn, Explode, Transform
from cutwater.core.job.job import Attached, Job, Objectives, Output
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import LONG, FieldType, value
from cutwater.core.job.shards import ShardMap
from cutwater.core.job.windows import WindowSpec
from cutwater.core.protocol.cuts import Cut, EpochPlan, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Claim, Milestone, Release, Start
from support.protocol_samples import GENERATION, JOB, OTHER, barrier, milestone

SOURCE = "flights.events"
COUNT = build("n", "count", None, None, HllSketches())
THIRD = Generation(3, "local", "0badcafe")


def job(*measures: object) -> Job:
    return Job(
        name=JOB,
        topic=SOURCE,
        event_schema={},
        key_field="key",
        time_field="at",
        time_micros=False,
        window=WindowSpec(60_000, 60_000),
        lateness_ms=0,
        retention_ms=1_000,
        shards=ShardMap(),
        measures=measures or (COUNT,),  # type: ignore[arg-type]
        max_ahead_ms=0,
        max_event_bytes=MAX_EVENT_BYTES,
        max_events_per_epoch=1,
        shuffle_partitions=1,
    )


PARENT = milestone(5, definition=job().fingerprint)
FINGERPRINT = PARENT.schema_fingerprint


def claim(generation: Generation = OTHER, withdrawn: str | None = None) -> Candidate:
    return Candidate(Claim(JOB, generation, b"", 3, 0, "why", 0), withdrawn=withdrawn)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_no_window_opens_again_that_the_parent_had_closed(floor: int, before: int, now: int) -> None:
    """Closed is what the parent's or the last epoch's watermark has reached; none below the floor is reported."""
    origin = StartState(Cut.of_topic("e", [3]), floor)
    plan = EpochPlan(Cut.of_topic("e", [9]), now)
    first = origin.range(plan, None)
    assert (first.before, first.cut, first.closed_ms) == (origin.source_cut, plan.source_cut, floor)
    later = origin.range(plan, EpochPlan(Cut.of_topic("e", [5]), before))
    assert (later.before, later.closed_ms) == (Cut.of_topic("e", [5]), max(floor, before))
    assert origin.watermark_ms(plan) == max(floor, now)


NEXT = barrier(PARENT.epoch + 1, source_cut=PARENT.source_cut, watermark_ms=PARENT.watermark_ms + 7)
FURTHER = barrier(PARENT.epoch + 2, source_cut=PARENT.source_cut, watermark_ms=PARENT.watermark_ms + 9)
READING = replace(NEXT, source_cut=Cut.of_topic(SOURCE, [10**6]))


@pytest.mark.parametrize(
    ("signals", "more"),
    [
        ([], 0),
        ([Start(JOB, GENERATION, 2, 0), barrier(PARENT.epoch), NEXT], 7),
        ([replace(NEXT, generation=OTHER, watermark_ms=10**15), NEXT, FURTHER], 7),
        ([READING, FURTHER], 0),
        ([replace(NEXT, watermark_ms=1)], 0),
    ],
)
def test_a_source_at_rest_holds_nothing_back(signals: list[Barrier], more: int) -> None:
    """What the parent closed without reading any more, a candidate need not read events to close."""
    begun = claim().claim
    assert floor_behind(begun, PARENT, signals) == PARENT.watermark_ms + more
    assert floor_behind(replace(begun, rewinds_to=3), PARENT, signals) == PARENT.watermark_ms
    assert floor_behind(replace(begun, origin="us"), PARENT, signals) == PARENT.watermark_ms
    assert StartState.of(PARENT).raised(PARENT.watermark_ms + more).floor_ms == PARENT.watermark_ms + more
    assert StartState.of(PARENT).raised(0) == StartState.of(PARENT)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_a_longer_retention_brings_no_window_back(
    horizon: int, watermark: int, retention: int, before: int
) -> None:
    """The seed holds nothing below the parent's horizon, and views nothing below the last epoch's."""
    stands = StartState(horizon_ms=horizon).horizon_at(watermark, retention, before)
    assert stands == max(horizon, before, watermark - retention)


def test_a_first_generation_begins_with_nothing() -> None:
    """All events, no floor, and the horizon that retention says."""
    plan = EpochPlan(Cut.of_topic("e", [9]), 7)
    assert FIRST.range(plan, None).before == Cut()
    assert (FIRST.range(plan, None).closed_ms, FIRST.watermark_ms(plan), FIRST.horizon_at(7, 9)) == (0, 7, 0)


@pytest.mark.parametrize(
    ("generation", "last", "candidate"),
    [
        (GENERATION, None, None),
        (GENERATION, PARENT, None),
        (OTHER, PARENT, claim()),
        (OTHER, milestone(6, generation=OTHER), claim()),
        (OTHER, milestone(6, generation=OTHER), None),
    ],
)
def test_who_is_at_work(generation: Generation, last: Milestone | None, candidate: Candidate | None) -> None:
    """The first one before any milestone, the promoted one, and an open candidate above it."""
    require_at_work(generation, last, candidate)


@pytest.mark.parametrize(
    ("generation", "last", "candidate", "why"),
    [
        (GENERATION, milestone(6, generation=OTHER), None, "is promoted"),
        (OTHER, PARENT, None, "is not a candidate"),
        (OTHER, None, None, "nothing is promoted yet"),
        (OTHER, PARENT, claim(withdrawn="too slow"), "too slow"),
        (OTHER, milestone(7, generation=THIRD), claim(), f"{THIRD} is promoted"),
    ],
)
def test_who_is_not_at_work_leaves(
    generation: Generation, last: Milestone | None, candidate: Candidate | None, why: str
) -> None:
    """Replaced, never claimed, given up, or overtaken by a later generation."""
    with pytest.raises(FencedError, match=why):
        require_at_work(generation, last, candidate)


def test_a_query_of_ones_own_cannot_be_seeded() -> None:
    """Unless its job file says how its values merge; declared measures say so themselves."""
    mine, merges = value("mine", LONG), merging(value("other", LONG), LONG, "sum")
    for able in (job(), job(COUNT, merges)):
        require_moves(able)
        assert moves(able)
    assert not moves(job(merges, mine))
    with pytest.raises(UsageError, match=r"attached.merges .* merges: {mine: sum} .* declared measures"):
        require_moves(job(merges, mine))


def test_a_query_of_ones_own_reads_the_topics_of_its_parent() -> None:
    """The job file names none; they must be here, with the partitions that were read."""
    own = replace(job(), topic="", attached=Attached("key", "window"))
    require_startable(own, FINGERPRINT, PARENT, {SOURCE: 2})
    with pytest.raises(UsageError, match=f"there is no topic {SOURCE} here"):
        require_startable(own, FINGERPRINT, PARENT, {})
    with pytest.raises(UsageError, match=f"{SOURCE} has 1 partitions"):
        require_startable(own, FINGERPRINT, PARENT, {SOURCE: 1})


def test_a_generation_goes_on_with_its_parents_measures_and_source() -> None:
    """Else its state would mix what does not belong together."""
    require_startable(job(), FINGERPRINT, PARENT, {SOURCE: 2})
    with pytest.raises(UsageError, match="measures say other"):
        require_startable(job(), "other", PARENT, {SOURCE: 2})
    with pytest.raises(UsageError, match=f"{SOURCE} has 1 partitions"):
        require_startable(job(), FINGERPRINT, PARENT, {SOURCE: 1})
    with pytest.raises(UsageError, match="the job file's source is others"):
        require_startable(replace(job(), topic="others"), FINGERPRINT, PARENT, {SOURCE: 2})


OVER_A, OVER_B = (build("n", "count", field, LONG, HllSketches()) for field in ("a", "b"))
STAYS = {
    "key_field": ("other", "key was 'key' and is 'other'"),
    "key_kind": ("date", r"key was 'key' and is \['key', 'date'\]"),
    "key_columns": ((KeyColumn("key", "string"),), r"key was 'key' and is \[\['key', 'string'\]\]"),
    "time_field": ("other", "event_time was 'at' and is 'other'"),
    "window": (WindowSpec(7_000, 7_000), "window_size_ms was 60000 and is 7000; window_slide_ms was"),
    "where": ("a > 0", "where was None and is 'a > 0'"),
    "transform": (Transform("m:f", ()), r"transform was None and is \['m:f', {}\]"),
    "upstream": ("other", "upstream was None and is 'other'"),
    "explode": (Explode("a", "item", "", ()), "explode was None and is"),
    "columns": ((ComputedColumn("c", "a", FieldType("int")),), "columns was None and is"),
    "shards": (ShardMap(shards=512), "shards was 1024 and is 512"),
    "measures": ((OVER_B,), "measures was"),
}
"""Another value of each field of a job that a generation has from its parent, and how it is told."""
MAY_CHANGE = {
    "event_schema": {"name": "other"},
    "time_micros": True,
    "lateness_ms": 7,
    "retention_ms": 7,
    "shards": ShardMap(partitions=7),
    "max_ahead_ms": 7,
    "max_event_bytes": 7,
    "max_events_per_epoch": 7,
    "max_bytes_per_epoch": 7,
    "amend_for_ms": 7,
    "shuffle_partitions": 7,
    "output": Output("final", "json", 7),
    "format": EventFormat(JSON),
    "changelog_format": "confluent",
    "registry": RegistryUse(url="http://registry"),
    "max_behind_ms": 7,
    "repeated_names": "reject",
    "lists_retention_ms": 7,
    "max_jump_ms": 7,
    "held_ms": 7,
    "max_bytes": 7,
    "objectives": Objectives(readable_p99_ms=2_000),
    "state_measures": (OVER_B,),
}
"""Another value of each field that may be another one in the next generation."""
OF_OTHER_JOBS = {"name", "topic", "attached"}
"""Their topics are others, the source's place in the cut, or tell whose query it is."""


def test_every_field_of_a_job_stays_or_may_change() -> None:
    """A new one is decided about. (Of the shards the number stays, and their partitions may change.)"""
    assert STAYS.keys() | MAY_CHANGE.keys() | OF_OTHER_JOBS == {one.name for one in fields(Job)}


@pytest.mark.parametrize("name", STAYS)
def test_what_a_row_says_stays(name: str) -> None:
    """The state's schema is the same; the milestone alone tells it, and the kept definition where."""
    before = job(OVER_A)
    parent = replace(PARENT, definition=before.fingerprint)
    value, told = STAYS[name]
    other = replace(before, **{name: value})  # type: ignore[arg-type]
    assert other.state_schema == before.state_schema
    require_startable(before, FINGERPRINT, parent, {SOURCE: 2})
    for kept, why in ((None, "the key, the event time, the window"), (before.definition, told)):
        with pytest.raises(UsageError, match=f"definition {before.fingerprint}, .* {other.fingerprint}: {why}"):
            require_startable(other, FINGERPRINT, parent, {SOURCE: 2}, kept)


@pytest.mark.parametrize("name", MAY_CHANGE)
def test_what_is_no_part_of_a_row_may_change(name: str) -> None:
    """A generation may have it otherwise than its parent, whatever the parent's checkpoint has kept."""
    before = job()
    after = replace(before, **{name: MAY_CHANGE[name]})  # type: ignore[arg-type]
    assert after != before
    for kept in (None, before.definition):
        require_startable(after, FINGERPRINT, PARENT, {SOURCE: 2}, kept)


def test_a_generation_may_read_copies_of_its_source_too() -> None:
    """Of that source alone, and only where they are."""
    copy = f"{SOURCE}.from-us"
    parent = replace(PARENT, source_cut=Cut.of({**PARENT.source_cut.as_dict(), TopicPartition(copy, 0): 3}))
    require_startable(job(), FINGERPRINT, parent, {SOURCE: 2, copy: 1})
    with pytest.raises(UsageError, match=f"there is no topic {copy} here"):
        require_startable(job(), FINGERPRINT, parent, {SOURCE: 2})
    for topic in ("others.from-us", f"{SOURCE}.from-", f"{SOURCE}.from-us.from-eu"):
        other = replace(parent, source_cut=Cut.of_topic(topic, [3]))
        with pytest.raises(UsageError, match=f"the job file's source is {SOURCE}"):
            require_startable(job(), FINGERPRINT, other, {SOURCE: 2, topic: 1})


def test_events_behind_the_milestone_must_be_kept() -> None:
    """From its source cut on, with nothing deleted between, and on the topic that it names."""
    (one, first), (other, second) = PARENT.source_cut
    require_kept(PARENT, {one: (0, first), other: (second, second + 9)})
    for kept in ({one: (first + 1, first + 9), other: (0, second)}, {one: (0, first), other: (0, second - 1)}):
        with pytest.raises(UsageError, match="from a later milestone"):
            require_kept(PARENT, kept)


def test_the_parents_cut_is_of_its_own_changelog() -> None:
    """A milestone of another job, or without any cut, is no parent."""
    require_own_changelog(JOB, PARENT)
    for parent in (PARENT, replace(PARENT, changelog_cut=Cut())):
        with pytest.raises(UsageError, match="another job"):
            require_own_changelog("ships" if parent is PARENT else JOB, parent)


def test_a_driver_of_a_released_job_leaves() -> None:
    """And one of the generation that comes back later does not."""
    released = Release("flights", Generation(2, "eu", "5f0c21aa"), 7, "us", 1)
    with pytest.raises(FencedError, match="released to region us after milestone g2-eu-5f0c21aa:7"):
        require_unreleased(released.generation, released)
    require_unreleased(Generation(4, "eu", "5f0c21ab"), released)
    require_unreleased(released.generation, None)
