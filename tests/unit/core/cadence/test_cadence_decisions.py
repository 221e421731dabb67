"""Decisions as records of the recovery trail, and what is in force by them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.topics.recovery_log import decode, encode
from cutwater.core.cadence.decisions import (
    BURST,
    EPOCHS,
    EVERY_S,
    SNAPSHOTS,
    Allowance,
    Decision,
    decision_of,
    in_force,
)
from cutwater.core.console.recovery_page import trail
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.recovery_log import CADENCE, Fact, Recovery, select_starts

FIRST = Decision(EPOCHS, {"events_max": 1_000, "interval_ms": 700}, "why")
NEXT = Decision(
    EPOCHS, {"events_max": 2_000, "interval_ms": 700}, "why", FIRST.sets, {"waiting": 12, "epoch_s": 0.5}
)
EVERY = Decision(SNAPSHOTS, {"snapshot_every_ms": 600_000}, "why")
STARTED = Generation(1, "local")


def record(decision: Decision, process: str = "host:1", generation: Generation = STARTED) -> Recovery:
    found = tuple(Fact(*one) for one in decision.facts().items())
    return Recovery("flights", generation, CADENCE, process, 1, 1_000, "running", decision.reason, found, ())


def test_a_decision_is_what_was_recorded() -> None:
    """Also behind the bytes of the topic."""
    for one in (FIRST, NEXT, EVERY):
        assert decision_of(record(one)) == one
        assert decision_of(decode(encode(record(one)))) == one


def test_other_records_are_no_decisions() -> None:
    """Of other services, of a newer version, and damaged ones."""
    one = record(NEXT)
    assert decision_of(replace(one, service="driver")) is None
    assert decision_of(replace(one, found=(Fact("part", "moons"), Fact("events_max", "1")))) is None
    assert decision_of(replace(one, found=(Fact("part", EPOCHS), Fact("events_max", "1")))) is None
    assert decision_of(replace(one, found=(*one.found, Fact("waiting", "many")))) is None


def test_decisions_are_no_starts() -> None:
    """Neither in `cutwater history` nor on the console, however many there are."""
    start = replace(record(FIRST), service="driver")
    assert select_starts([start, record(NEXT)], None, None) == [start]
    assert select_starts([record(NEXT)], CADENCE, None) == []
    assert [one["service"] for one in trail([start, *[record(NEXT)] * 500])] == ["driver"]


def test_the_newest_decision_of_each_part_and_view_is_in_force() -> None:
    """Nothing of an earlier driver, which is fenced, nor of an earlier generation if a newer one decides."""
    made = [
        record(NEXT, "host:1"),
        record(EVERY, "host:2"),
        record(EVERY, "host:3"),
        record(FIRST, "host:4", Generation(2, "local")),
    ]
    pairs = [(one, decision) for one in made if (decision := decision_of(one))]
    assert [one.process for one, _ in in_force(pairs)] == ["host:4", "host:2", "host:3"]
    assert in_force(pairs)[0][1] == FIRST
    newer = [*pairs, (record(EVERY, "host:2", Generation(2, "local")), EVERY)]
    assert [one.process for one, _ in in_force(newer)] == ["host:4", "host:2"]


@given(st.lists(st.floats(0, 10), max_size=100))
def test_decisions_are_so_many_at_once_and_one_in_each_time(pauses: list[float]) -> None:
    """And nothing is lost of the allowance: whoever waits long enough may decide."""
    allowance, now, taken_s = Allowance(), 0.0, list[float]()
    for pause in pauses:
        now += pause
        if allowance.take(now):
            taken_s.append(now)
    assert len(taken_s) <= BURST + now / EVERY_S + 1e-6
    assert allowance.take(now + EVERY_S)
