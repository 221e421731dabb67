"""Milestones that wait for the last step of their trace: each is told once, and with the steps that are known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.protocol.records import Committed
from cutwater.core.tracing.milestone_traces import HINTS_MAX, OPEN_MAX, PATIENCE_MS, OpenTraces
from cutwater.core.tracing.trace_steps import Trace
from support.protocol_samples import GENERATION, JOB, milestone


def made(sequence: int, **times: Any) -> Any:
    moments = {"epoch_started_ms": 1_000, "written_ms": 1_400, "committed_ms": 1_500, **times}
    return replace(milestone(sequence, **moments), sequence=sequence)


def hint(one: Any, at_ms: int = 1_450) -> Committed:
    return Committed(JOB, GENERATION, one.attempt, one.epoch, at_ms)


def names(trace: Trace) -> list[str]:
    return [step.name for step in trace.steps]


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


def test_a_hint_counts_whether_it_is_read_before_or_after_its_milestone() -> None:
    """Of the same epoch and attempt, and only the first one."""
    one, steps = made(4), ["milestone", "epoch", "checkpoint", "commit", "publish"]
    empty = OpenTraces(publishes=True, serves=False)
    other = replace(hint(one), attempt=one.attempt + 1)
    before = empty.hint(other).hint(hint(one)).add(one).publish(4, 1_700)
    after = empty.add(one).hint(hint(one)).hint(hint(one, 1_490)).hint(other).publish(4, 1_700)
    for traces in (before, after):
        (told,) = traces.finished
        assert names(told) == steps
        assert told.steps[2].end_ms == 1_450
    (without,) = empty.hint(other).add(one).publish(4, 1_700).finished
    assert names(without) == ["milestone", "epoch", "commit", "publish"]


def test_hints_that_no_milestone_follows_are_kept_with_a_bound() -> None:
    traces = OpenTraces(publishes=True, serves=False)
    for epoch in range(HINTS_MAX + 5):
        traces = traces.hint(Committed(JOB, GENERATION, 1, epoch, 0))
    assert len(traces.hints) == HINTS_MAX
    assert traces.add(made(HINTS_MAX + 5)).hints == ()


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
