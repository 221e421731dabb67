"""The steps of a milestone's trace in the region that it is copied to."""

from __future__ import annotations

from cutwater.core.protocol.mirror_records import Arrival
from cutwater.core.protocol.records import Milestone
from cutwater.core.tracing.trace_steps import Trace, trace_id
from cutwater.mirror.arrivals.arrival_tracer import OPEN_MAX, ArrivalTracer
from support.protocol_samples import milestone


def arrival(one: Milestone, at_ms: int) -> Arrival:
    return Arrival(
        job=one.job,
        origin="us",
        generation=one.generation,
        sequence=one.sequence,
        milestone_hash=b"",
        stream_offset=0,
        source_cut=one.source_cut,
        changelog_cut=one.changelog_cut,
        watermark_ms=one.watermark_ms,
        committed_ms=one.committed_ms,
        arrived_ms=at_ms,
    )


def test_an_arrival_is_two_steps_of_the_milestones_trace() -> None:
    """From its commit in the origin to its copy, and from there to the arrival; sent once."""
    sent: list[Trace] = []
    tracer, one = ArrivalTracer(sent.append, "eu"), milestone(1, committed_ms=1_000)
    tracer.copied(one, 1_200)
    assert tracer.arrived(arrival(one, 1_500)) is sent[0]
    assert sent[0].trace_id == trace_id(one)
    assert [(step.name, step.start_ms, step.end_ms) for step in sent[0].steps] == [
        ("copy", 1_000, 1_200),
        ("arrive", 1_200, 1_500),
    ]
    assert {step.attributes["cutwater.region"] for step in sent[0].steps} == {"eu"}
    assert tracer.arrived(arrival(one, 1_500)) is None
    assert len(sent) == 1


def test_milestones_that_never_arrive_are_kept_with_a_bound() -> None:
    """The oldest are forgotten: their trace has no steps here."""
    sent: list[Trace] = []
    tracer = ArrivalTracer(sent.append, "eu")
    first = last = milestone(0)
    for _ in range(OPEN_MAX):
        last = milestone(last.epoch + 1, last)
        tracer.copied(last, 0)
    tracer.copied(first, 0)
    second = milestone(1, first)
    assert tracer.arrived(arrival(second, 1)) is None
    assert tracer.arrived(arrival(last, 1)) is not None
