"""Rows of a replay, merged with those that it starts from: as if all events had been counted at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches
from cutwater.core.errors import UsageError
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import FieldType, Measure
from cutwater.core.past.replayed_rows import ReplayMerge, SourceOffsets, keeps_places, merging, side_by_side
from support.cli.verb_records import JOB as FLIGHTS

_SKETCHES = HllSketches()
LONG = FieldType("long")
COUNT = build("n", "count", None, None, _SKETCHES)
FIRST = build("first", "first", "f", LONG, _SKETCHES)
LAST = build("last", "last", "f", LONG, _SKETCHES)
MEAN = build("mean", "avg", "f", LONG, _SKETCHES)
JOB = replace(FLIGHTS, measures=(COUNT, FIRST, LAST))


@given(st.lists(st.sets(st.integers(0, 60), min_size=1)), st.integers(1, 7))
def test_every_copied_record_has_its_offset_in_the_source(partitions: list[set[int]], piece: int) -> None:
    """Whatever gaps there are, and in whatever pieces they come."""
    offsets = SourceOffsets()
    for number, some in enumerate(partitions):
        every = sorted(some)
        for at in range(0, len(every), piece):
            offsets.add(number, every[at : at + piece])
    for number, some in enumerate(partitions):
        assert [offsets.source(number, at) for at in range(len(some))] == sorted(some)


def test_gaps_have_a_bound() -> None:
    offsets = SourceOffsets(runs_max=2)
    offsets.add(0, [1, 2, 3])
    offsets.add(1, [7, 9][:1])
    with pytest.raises(UsageError, match="gaps"):
        offsets.add(0, [5])


def counted(events: list[tuple[int, int, int, int]]) -> dict[str, Any] | None:
    """The partials of events, as Spark makes them: event time, partition, offset and value of each."""
    if not events:
        return None
    places = [
        {"event_time": time, "origin": "local", "partition": partition, "offset": offset, "value": value}
        for time, partition, offset, value in events
    ]

    def order(one: dict[str, Any]) -> tuple[int, ...]:
        return one["event_time"], one["partition"], one["offset"]

    return {"n": len(events), "first": min(places, key=order), "last": max(places, key=order)}


@given(st.data())
def test_a_merged_row_is_that_of_all_events(data: st.DataObject) -> None:
    """First and last too, though event times are equal, and the copy has other offsets."""
    events = []
    for partition in range(2):
        for offset in sorted(data.draw(st.sets(st.integers(0, 30), max_size=8))):
            events.append((data.draw(st.integers(0, 1)), partition, offset, len(events)))
    cut = data.draw(st.lists(st.integers(0, 31), min_size=2, max_size=2))
    before = [one for one in events if one[2] < cut[one[1]]]
    after = [one for one in events if one[2] >= cut[one[1]]]
    offsets, copies = SourceOffsets(), []
    for partition in range(2):
        own = [one for one in after if one[1] == partition]
        if own:
            offsets.add(partition, [one[2] for one in own])
        copies += [(time, partition, number, value) for number, (time, _, _, value) in enumerate(own)]
    if events:
        merge = ReplayMerge(JOB, JOB, offsets)
        found = merge.partials(counted(before), counted(copies))
        assert found == counted(events)
        assert merge.shown(found).values["n"] == len(events)
        assert not merge.keeps_bytes


def test_what_cannot_be_merged_is_left_out() -> None:
    """Other kinds and forms under one name; a derived value goes with the measures that it reads."""
    of_n = Measure("of_n", "derived", (), lambda row: row["n"], "long", reads=("n",))
    of_mean = Measure("of_mean", "derived", (), lambda row: row["mean_sum"], "long", reads=("mean_sum",))
    most, least = (build("f", kind, "f", LONG, _SKETCHES) for kind in ("max", "min"))
    before = replace(JOB, measures=(COUNT, most, of_n, of_mean))
    after = replace(JOB, measures=(COUNT, least, MEAN, of_n, of_mean))
    assert [one.name for one in merging(before, after)] == ["n", "of_n"]
    merge = ReplayMerge(after, before, None)
    row = {"n": 2, "f": 5, "mean_sum": 1, "mean_count": 1}
    assert merge.shown(merge.partials(row, row)).values == {"n": 4, "of_n": 4}
    assert merge.shown(merge.partials(row, None)).values == {"n": 2, "of_n": 2}
    alone = ReplayMerge(after, None, None)
    assert alone.names == {"n", "f", "mean", "of_n", "of_mean"}
    assert alone.partials(None, row) is row


def test_only_places_need_offsets() -> None:
    assert keeps_places(JOB)
    assert not keeps_places(replace(JOB, measures=(COUNT, MEAN)))


ROWS = st.dictionaries(st.binary(min_size=1, max_size=2), st.binary(max_size=1), max_size=12)


@given(st.lists(ROWS, min_size=1, max_size=3), st.integers(1, 4))
def test_rows_of_several_states_side_by_side(states: list[dict[bytes, bytes]], piece: int) -> None:
    """Each name once, in order, with the value of each state."""

    def pieces(rows: dict[bytes, bytes]) -> Any:
        every = sorted(rows.items())
        return (every[at : at + piece] for at in range(0, len(every), piece))

    names = sorted(set().union(*states))
    expected = [(name, tuple(one.get(name) for one in states)) for name in names]
    assert list(side_by_side([pieces(one) for one in states])) == expected
