"""The steps of a trace, from whichever process: they add up to its whole time, and each belongs to another one."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.protocol.records import Milestone
from cutwater.core.tracing.query_progress import QueryProgress
from cutwater.core.tracing.trace_steps import (
    EPOCH,
    PLAN,
    ROOT,
    EpochMoments,
    Step,
    Trace,
    arrival_trace,
    driver_trace,
    milestone_trace,
    spark_trace,
    trace_id,
)
from support.protocol_samples import milestone

TIMES = st.integers(0, 100_000)
MAYBE = st.none() | TIMES


def epoch(started: int, written: int, committed: int) -> Milestone:
    return milestone(1, epoch_started_ms=started, written_ms=written, committed_ms=committed)


def moments(*at: int) -> EpochMoments:
    return EpochMoments(*at)


def progress(started_ms: int, **phases_ms: int) -> QueryProgress:
    return QueryProgress(epoch=0, started_ms=started_ms, phases_ms=phases_ms)


def covered_ms(steps: list[Step]) -> int:
    """The time in which at least one of the steps goes on."""
    total, reached = 0, 0
    for step in sorted(steps, key=lambda one: one.start_ms):
        total += max(0, step.end_ms - max(step.start_ms, reached))
        reached = max(reached, step.end_ms)
    return total


def children(steps: list[Step], name: str) -> list[Step]:
    (parent,) = [one for one in steps if one.name == name]
    return [one for one in steps if one.parent_id == parent.span_id]


def whole(
    gaps: list[int], hint: int | None, published: int | None, applied: int | None, phases: dict[str, int]
) -> tuple[Milestone, list[Step]]:
    """A milestone, and what all processes send of it. `gaps`: the times between its moments, in their order."""
    began, started, cleared, rows, proved, written, barrier, committed, copied, arrived = accumulate(
        [1_000, *gaps]
    )
    one = epoch(started, written, committed)
    later = [None if at is None else committed + at for at in (published, applied)]
    traces = [
        milestone_trace(one, None if hint is None else written + hint, *later),
        driver_trace(one, moments(cleared, rows, proved, barrier)),
        spark_trace(one, progress(began, **phases)),
        arrival_trace(one, "eu", copied, arrived),
    ]
    assert {trace.trace_id for trace in traces} == {trace_id(one)}
    return one, [step for trace in traces for step in trace.steps]


PHASES = st.dictionaries(
    st.sampled_from(
        ["latestOffset", "walCommit", "getBatch", "queryPlanning", "commitOffsets", "triggerExecution"]
    ),
    st.integers(0, 10_000),
)


@given(st.lists(TIMES, min_size=9, max_size=9), MAYBE, MAYBE, MAYBE, PHASES)
def test_steps_add_up_to_the_whole_time(
    gaps: list[int], hint: int | None, published: int | None, applied: int | None, phases: dict[str, int]
) -> None:
    """From the first moment to the last there is a step at each, of the trace, of its epoch and of its plan."""
    _, steps = whole(gaps, hint, published, applied, phases)
    begin, end = min(one.start_ms for one in steps), max(one.end_ms for one in steps)
    assert covered_ms(children(steps, ROOT)) == end - begin
    for name in (EPOCH, PLAN):
        (parent,) = [one for one in steps if one.name == name]
        inside = children(steps, name)
        assert sum(one.end_ms - one.start_ms for one in inside) == parent.end_ms - parent.start_ms
        assert (inside[0].start_ms, inside[-1].end_ms) == (parent.start_ms, parent.end_ms)


@given(st.lists(TIMES, min_size=9, max_size=9), MAYBE, MAYBE, MAYBE, PHASES)
def test_each_step_has_an_id_of_its_own_and_a_parent_that_is_sent(
    gaps: list[int], hint: int | None, published: int | None, applied: int | None, phases: dict[str, int]
) -> None:
    _, steps = whole(gaps, hint, published, applied, phases)
    ids = {one.span_id for one in steps}
    assert len(ids) == len(steps)
    assert [one.name for one in steps if one.parent_id is None] == [ROOT]
    assert {one.parent_id for one in steps} - {None} <= ids


@given(st.lists(TIMES, min_size=12, max_size=12))
def test_clocks_that_differ_make_no_negative_step(at: list[int]) -> None:
    """Whatever the clocks say: each step of a chain begins where the one before it ends."""
    one = epoch(*at[:3])
    traces: list[Trace] = [
        milestone_trace(one, at[3], at[4], at[5]),
        driver_trace(one, moments(*at[6:10])),
        spark_trace(one, progress(at[10], latestOffset=at[11], triggerExecution=at[0], commitOffsets=at[1])),
        arrival_trace(one, "eu", at[10], at[11]),
    ]
    assert all(step.end_ms >= step.start_ms for trace in traces for step in trace.steps)
    root, *steps = traces[0].steps
    assert covered_ms(steps) == root.end_ms - root.start_ms
    for chain in (traces[1].steps[:4], traces[2].steps[1:5], traces[3].steps):
        assert all(later.start_ms == earlier.end_ms for earlier, later in pairwise(chain))


def test_the_commit_is_split_where_the_driver_has_seen_spark_s() -> None:
    trace = milestone_trace(epoch(1_000, 1_400, 1_500), 1_470, None, None)
    assert [(one.name, one.start_ms, one.end_ms) for one in trace.steps] == [
        ("milestone", 1_000, 1_500),
        ("epoch", 1_000, 1_400),
        ("checkpoint", 1_400, 1_470),
        ("commit", 1_470, 1_500),
    ]


def test_the_plan_is_split_by_spark_s_phases() -> None:
    """What Spark reports of no phase is its start of the batch; its commit is the end of the trigger."""
    told = progress(1_000, latestOffset=20, walCommit=30, getBatch=1, queryPlanning=49, triggerExecution=900)
    trace = spark_trace(
        epoch(1_150, 1_700, 2_000), replace(told, phases_ms=dict(told.phases_ms) | {"commitOffsets": 40})
    )
    assert [(one.name, one.start_ms, one.end_ms) for one in trace.steps] == [
        ("plan", 1_000, 1_150),
        ("offsets", 1_000, 1_020),
        ("write-ahead", 1_020, 1_050),
        ("planning", 1_050, 1_100),
        ("start", 1_100, 1_150),
        ("commit-log", 1_860, 1_900),
    ]


def test_each_region_has_its_own_steps() -> None:
    """Their ids do not depend on which region tells first, and a span names its region."""
    one = epoch(0, 1, 2)
    steps = [*arrival_trace(one, "eu", 5, 9).steps, *arrival_trace(one, "asia", 6, 7).steps]
    assert len({each.span_id for each in steps}) == 4
    assert [each.attributes["cutwater.region"] for each in steps] == ["eu", "eu", "asia", "asia"]


def test_ids_are_of_the_epoch() -> None:
    """Whoever tells about it; another attempt's epoch is another one."""
    one = milestone(4)
    assert trace_id(one) == trace_id(replace(one, rows=7)) == milestone_trace(one, None, 5, 6).trace_id
    assert len({trace_id(one), trace_id(milestone(5)), trace_id(replace(one, attempt=9))}) == 3
    assert 0 < trace_id(one) < 1 << 128
