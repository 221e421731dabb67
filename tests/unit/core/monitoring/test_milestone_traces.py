"""Traces of milestones: their steps cover their time, and each milestone is told once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.monitoring.milestone_traces import (
    OPEN_MAX,
    PATIENCE_MS,
    OpenTraces,
    Trace,
    trace_id,
    trace_of,
)
from support.protocol_samples import milestone

TIMES = st.integers(0, 100_000)


def made(sequence: int, **times: Any) -> Any:
    moments = {"epoch_started_ms": 1_000, "written_ms": 1_400, "committed_ms": 1_500, **times}
    return replace(milestone(sequence, **moments), sequence=sequence)


@given(TIMES, TIMES, TIMES, st.none() | TIMES, st.none() | TIMES)
def test_steps_cover_the_whole(
    begin: int, process: int, commit: int, publish: int | None, apply: int | None
) -> None:
    """From the first to the last moment there is a step at each: 100 % of the time, where 98 are asked for."""
    written, committed = begin + process, begin + process + commit
    one = made(1, epoch_started_ms=begin, written_ms=written, committed_ms=committed)
    later = [None if at is None else committed + at for at in (publish, apply)]
    trace = trace_of(one, later[0], later[1])
    root, *steps = trace.steps
    assert root.start_ms == begin
    assert root.end_ms == max([committed, *(at for at in later if at is not None)])
    reached = begin
    for step in sorted(steps, key=lambda each: each.start_ms):
        assert step.start_ms <= reached
        assert step.parent_id == root.span_id
        reached = max(reached, step.end_ms)
    assert reached == root.end_ms
    assert (
        len({step.span_id for step in trace.steps}) == len(trace.steps) == 3 + sum(at is not None for at in later)
    )


def test_ids_are_of_the_epoch() -> None:
    """Whoever tells about it; another attempt's epoch is another one."""
    one = made(4)
    assert trace_id(one) == trace_id(replace(one, rows=7)) == trace_of(one, 5, 6).trace_id
    assert len({trace_id(one), trace_id(made(5)), trace_id(replace(one, attempt=9))}) == 3
    assert 0 < trace_id(one) < 1 << 128


def test_clocks_that_differ_make_no_negative_step() -> None:
    trace = trace_of(made(1, written_ms=900, committed_ms=800), 100, None)
    assert all(step.end_ms >= step.start_ms for step in trace.steps)


def finished(traces: OpenTraces) -> tuple[OpenTraces, tuple[Trace, ...]]:
    return traces.take_finished()


def test_a_trace_is_told_once_its_last_step_is_known() -> None:
    traces = OpenTraces(publishes=True, serves=True)
    for sequence in (1, 2, 3):
        traces = traces.add(made(sequence))
    traces, told = finished(traces.publish(2, 1_700))
    assert told == ()
    traces, told = finished(traces.apply(3, 1_800))
    assert [one.steps[0].attributes["cutwater.epoch"] for one in told] == [1, 2]
    assert [step.name for step in told[0].steps] == ["milestone", "epoch", "commit", "publish", "apply"]
    traces, told = finished(traces.publish(3, 1_900))
    assert [one.steps[0].end_ms for one in told] == [1_900]
    assert traces.open == ()


def test_steps_that_there_are_not_are_not_waited_for() -> None:
    _, told = finished(OpenTraces(publishes=False, serves=False).add(made(1)))
    assert [step.name for step in told[0].steps] == ["milestone", "epoch", "commit"]


def test_what_never_comes_is_waited_for_with_a_bound() -> None:
    traces = OpenTraces(publishes=True, serves=True).add(made(1))
    traces, told = finished(traces.add(made(2, committed_ms=1_501 + PATIENCE_MS)))
    assert [one.steps[0].attributes["cutwater.epoch"] for one in told] == [1]
    many = OpenTraces(publishes=True, serves=True)
    for sequence in range(OPEN_MAX + 5):
        many = many.add(made(sequence))
    assert len(many.open) == OPEN_MAX
    assert len(many.finished) == 5


@given(st.lists(st.tuples(st.sampled_from(["add", "publish", "apply"]), st.integers(0, 12)), max_size=40))
def test_each_milestone_is_told_at_most_once(acts: list[tuple[str, int]]) -> None:
    traces, told, sequence = OpenTraces(publishes=True, serves=True), Counter[int](), 0
    for act, number in acts:
        if act == "add":
            sequence += 1
            traces = traces.add(made(sequence))
        else:
            traces = getattr(traces, act)(number, 2_000)
        traces, some = finished(traces)
        told += Counter(int(one.steps[0].attributes["cutwater.epoch"]) for one in some)
    assert not told or max(told.values()) == 1
    assert sum(told.values()) + len(traces.open) == sequence
