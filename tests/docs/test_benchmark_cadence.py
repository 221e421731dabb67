"""The arithmetic of the benchmarks of cadence and of snapshots, with plain values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

S = 1_000_000_000


def cadence_run(part: Any, contender: str, missed_s: float, p99_ms: float, cpu_s: float, pair: int = 1) -> Any:
    delays = {"view": {"p50": 1.0, "p99": p99_ms}}
    run = part("cadence.outcome").CadenceRun
    return run(contender, pair, delays, p99_ms, missed_s, 9, cpu_s, exact=True)


def snapshot_run(part: Any, contender: str, p99_ms: float, restore_s: float = 4.0) -> Any:
    delays = {"view": {"p50": 1.0, "p99": p99_ms, "max": p99_ms}}
    run = part("snapshots.contest").SnapshotRun
    return run(contender, 1, delays, 9, 1e5, 1e5, 3, 50.0, 7.0, restore_s, 2.0, exact=True)


def test_a_profile_s_events_are_due_evenly_in_their_seconds(part: Any) -> None:
    """Two in the first second, none in the second one, four in the third; a sender knows it by the pace alone."""
    plan = part("latency.load").Plan(2, 2, 3, 1, 7, (2, 0, 4))
    wanted = [0, S // 2, 2 * S, 2 * S + S // 4, 2 * S + S // 2, 2 * S + 3 * S // 4]
    assert (plan.due_ns(10) - 10).tolist() == wanted
    again = part("latency.load").Plan.of_pace(plan.pace, plan.events, 7)
    assert again.due_ns(10).tolist() == plan.due_ns(10).tolist()
    assert (plan.seconds, again.seconds) == (3, 3)
    steady = part("latency.load").Plan(1_000, 5, 10, 5, 3)
    assert part("latency.load").Plan.of_pace(steady.pace, 20, 3).due_ns(0).tolist() == steady.due_ns(0).tolist()


def test_profiles_have_their_mean_and_their_peak(part: Any) -> None:
    """A spike of ten times as many for eight seconds; a day of flights that is neither steady nor empty."""
    profiles = part("cadence.profiles")
    found = profiles.spike(100, 30)
    assert (len(found), sum(found), max(found), found.count(1_000)) == (30, 22 * 100 + 8 * 1_000, 1_000, 8)
    day = profiles.day_of_flights(1_000, 120)
    assert len(day) == 120
    assert sum(day) == pytest.approx(120_000, rel=0.01)
    assert max(day) > 2 * 1_000
    plan = profiles.plan_of(found, 7)
    assert (plan.warm, plan.measured, plan.tail) == (2_000, sum(found), 300)
    assert len(plan.due_ns(0)) == plan.events


def test_a_second_is_missed_for_more_than_one_event_of_a_hundred(part: Any) -> None:
    """The first of three seconds has one late event of a hundred, the second two, the third none."""
    due_ns = np.repeat(np.arange(3), 100) * S
    delays_ms = np.zeros(300)
    delays_ms[[5, 100, 199]] = 2_001.0
    assert part("cadence.outcome").missed_s(due_ns, delays_ms, 2_000) == 1.0


def test_the_controller_is_held_against_the_fixed_setting_that_misses_least(part: Any) -> None:
    """Of two about as good the one with the least CPU; what is within the objective counts as much as it."""
    outcome = part("cadence.outcome")
    runs = [
        cadence_run(part, "controller", 9, 2_600, 21),
        cadence_run(part, "often", 9, 1_500, 30),
        cadence_run(part, "rarely", 9, 1_900, 20),
        cadence_run(part, "small", 40, 9_000, 10),
    ]
    assert outcome.best_fixed(runs, 2_000) == "rarely"
    found = outcome.ratios(runs, 2_000)
    assert found["missed/small"]["median"] == 4.1
    assert found["p99/rarely"]["median"] == round(2_000 / 2_600, 3)
    assert found["cpu/often"]["median"] == round(30 / 21, 3)
    assert outcome.verdict(found, "rarely") == [
        "the controller beside the best fixed setting, rarely: missed 1.00, p99 1.30, cpu 1.05 "
        "(at most 1.1: not kept)"
    ]
    assert outcome.best_fixed(runs[:1], 2_000) is None
    assert outcome.verdict({}, None) == []


def test_a_run_is_recorded_as_what_came_and_what_it_cost(part: Any) -> None:
    """Epochs on one line give that line back; one that took twice as long has both costs twice."""
    outcome = part("cadence.outcome")
    costs = [(1_000, 0.41), (2_000, 0.42), (50_000, 0.9), (3_000, 0.86), (4_000, 0.44)]
    epochs = [
        outcome.RecordedEpoch(10 * S + at * S, int(10 * S + at * S + seconds * S), events)
        for at, (events, seconds) in enumerate(costs)
    ]
    epochs += [outcome.RecordedEpoch(9 * S, 10 * S, 7), outcome.RecordedEpoch(12 * S, 13 * S, 0)]
    due_ns = np.array([10 * S, 10 * S + 1, 14 * S, 15 * S])
    found = outcome.trace(epochs, due_ns, "a test")
    assert found["events_of_second"] == [2, 0, 0, 0, 1, 1]
    assert [one["events"] for one in found["epochs"]] == [events for events, _ in costs]
    for one, (events, seconds) in zip(found["epochs"], costs, strict=True):
        assert one["fixed_s"] + events * one["event_us"] / 1e6 == pytest.approx(seconds, rel=0.01)
    stretched = found["epochs"][3]["fixed_s"] / found["epochs"][0]["fixed_s"]
    assert stretched == pytest.approx(2, rel=0.05)


def test_a_milestone_is_shown_with_itself_or_a_later_one(part: Any) -> None:
    """The view leaps from 1 to 3: the second is shown with the third."""
    milestones = [SimpleNamespace(sequence=number, committed_ms=1_000 * number) for number in (1, 2, 3)]
    seen = [(1_010_000_000, 1), (3_500_000_000, 3)]
    found = part("snapshots.contest").delays_ms(milestones, seen)
    assert (found["p50"], found["max"]) == (500.0, 1_500.0)


def test_ways_of_snapshots_are_held_against_the_default(part: Any) -> None:
    """Above 1 the default is better: here by delay, and by the restore."""
    snapshots = part("snapshots.bench")
    runs = [
        snapshot_run(part, "asynchronous-eager", 100.0, restore_s=4.0),
        snapshot_run(part, "synchronous-eager", 1_000.0),
        snapshot_run(part, "asynchronous-lazy", 50.0, restore_s=12.0),
    ]
    found = part("harness.figures").ratios(runs, snapshots.OURS, snapshots.FIGURES)
    assert found["delay-p99/synchronous-eager"]["median"] == 10.0
    assert found["delay-p99/asynchronous-lazy"]["median"] == 0.5
    assert found["restore-killed/asynchronous-lazy"]["median"] == 3.0
    assert "delay-p99/no-snapshots" not in found
    assert snapshots.COMMAND.parse(["--size", "5000", "--seconds", "9"]).seconds == 9
    with pytest.raises(SystemExit):
        snapshots.COMMAND.parse(["--contenders", "peer"])
