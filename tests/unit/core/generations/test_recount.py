"""Whether events are counted again for measures of `kept: state`, and from when on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.sketches import HllSketches
from cutwater.core.generations.recount import event_count, events_since_ms, recount_obstacle
from cutwater.core.job.columns import Transform
from cutwater.core.job.job import Job
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import LONG
from cutwater.core.job.windows import WindowSpec
from cutwater.core.protocol.cuts import Cut, TopicPartition
from support.cli.verb_records import JOB as FLIGHTS
from support.protocol_samples import milestone

_SKETCHES = HllSketches()
COUNT = build("n", "count", None, None, _SKETCHES)
OF_FIELD = build("some", "count", "f", LONG, _SKETCHES)
TOTAL = build("total", "sum", "f", LONG, _SKETCHES)
JOB = replace(FLIGHTS, measures=(TOTAL, COUNT))
PARENT = replace(milestone(5), source_cut=Cut.of({TopicPartition(JOB.topic, 0): 7}))
COPIED = replace(PARENT, source_cut=Cut.of({TopicPartition(f"{JOB.topic}.from-us", 0): 7}))


def test_a_number_of_all_events_is_the_proof() -> None:
    """One of a field's values says nothing of the events without one."""
    assert event_count(JOB) == "n"
    assert event_count(replace(JOB, measures=(TOTAL, OF_FIELD))) is None
    assert recount_obstacle(JOB, PARENT, another_file=False, reopened=False) == ""


@pytest.mark.parametrize(
    ("job", "parent", "another", "reopened", "says"),
    [
        (replace(JOB, measures=(OF_FIELD,)), PARENT, False, False, "no {measure: count}"),
        (JOB, PARENT, True, False, "the job file is another one"),
        (JOB, PARENT, False, True, "events that were late count now"),
        (replace(JOB, transform=Transform("m:f", ())), PARENT, False, False, "a function of your own"),
        (JOB, COPIED, False, False, "copies of another region's events"),
    ],
)
def test_where_a_part_could_not_be_told_from_the_whole_nothing_is_counted(
    job: Job, parent: object, another: bool, reopened: bool, says: str
) -> None:
    assert says in recount_obstacle(job, parent, another, reopened)  # type: ignore[arg-type]


@given(floor=st.integers(0, 10_000), at=st.integers(0, 10_000), size=st.integers(1, 500))
def test_no_event_of_an_open_window_is_older_than_what_is_read(floor: int, at: int, size: int) -> None:
    """A window is open if it ends above the floor."""
    job = replace(JOB, window=WindowSpec(size, size))
    if at // size * size + size > floor:
        assert at >= events_since_ms(job, floor)
