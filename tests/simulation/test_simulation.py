"""Thousands of histories from seeds: whatever crashes, stalls, repeats or jumps, nobody is shown what is wrong.

CUTWATER_SEEDS sets how many; `make simulate SEED=17` repeats one and prints it shrunken if it fails.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from functools import partial

import pytest

from cutwater.views.store import key_layout
from simulation.checker import ABORTED_READ, GAP, INVERSION, LOST_WRITE, Anomaly, Truth
from simulation.guards import GUARDS
from simulation.histories import LOSING, Climate, anomaly_of, history_of, play, shrink
from simulation.job import JOB, key_bytes
from simulation.running import explain, run_seeds
from simulation.scenes import (
    cleared_while_away,
    lost_row,
    old_barrier,
    repeated_rows,
    seen,
    two_tellings,
    zombie_of_the_generation,
)
from simulation.world import Profile, Services, Step

FIRST = 300
"""So many seeds are quick."""
SEEDS = int(os.environ.get("CUTWATER_SEEDS", "5000"))
FAULTS = (
    *(f"kill {slot}" for slot in ("driver", "signal", "view", "part", "publisher", "consumer", "reader")),
    *(f"stall {slot}" for slot in ("driver", "signal", "publisher")),
    *(f"zombie {slot}" for slot in ("driver", "signal", "publisher")),
    *(f"FencedError {slot}" for slot in ("driver", "signal", "publisher")),
    *(f"UnavailableError {slot}" for slot in ("driver", "signal", "publisher")),
    *("clock jump", "compacted", "evicted", "late row", "transaction timed out", "unknown outcome", "view lost"),
    *("overlapping windows", "windows published once", "store lost"),
    *("generations", "claim", "rollback", "promote", "hand-over", "candidate preloaded"),
    "states compared ahead",
    *("checkpoint rolled back", "generation ended", "Concurrent driver"),
    *("power lost", *(f"lost tail of {topic}" for topic in LOSING)),
    *("aged", "tombstone", "tombstone not acknowledged"),
)


@pytest.mark.timeout(900)
@pytest.mark.variations
@pytest.mark.parametrize("seeds", [range(FIRST), range(FIRST, max(SEEDS, FIRST + 1))], ids=["first", "others"])
def test_no_history_shows_what_is_wrong(seeds: range) -> None:
    """I1 to I4 in every history: views, `committed()` from both sources and the output against the events.

    And the faults happened: a simulation whose faults never fire proves nothing.
    """
    faults, milestones = Counter[str](), 0
    failures: list[tuple[int, str]] = []
    for outcome in run_seeds(seeds):
        faults += outcome.faults
        milestones += outcome.milestones
        failures += outcome.failures
    assert not failures, explain(failures[0][0]) + f"\nseeds that failed: {failures[:20]}"
    assert milestones > 4 * len(seeds)
    rare = {name: faults[name] for name in FAULTS if faults[name] < len(seeds) / 500}
    # Of few histories a few faults may be absent.
    most = len(FAULTS) // 10 if len(seeds) <= FIRST else 0
    assert len(rare) <= most, f"faults that hardly happened: {rare}"


def test_a_seed_tells_the_same_history_again() -> None:
    """Two runs of one seed leave the same bytes on every partition."""

    def bytes_of(seed: int) -> list[tuple[object, ...]]:
        world = play(*history_of(seed))
        return [
            (name, number, one.offset, one.key, one.value, one.time_ms)
            for name, partitions in world.log.topics.items()
            for number, partition in enumerate(partitions)
            for one in partition.records
        ]

    assert bytes_of(7) == bytes_of(7)


def test_the_world_runs_the_services_own_classes() -> None:
    """No second copy of the logic: what is simulated is log, disk, Spark and the passing of time."""
    for field in fields(Services):
        running = getattr(Services(), field.name)
        assert running.__module__.startswith("cutwater.") or running.__module__ == "simulation.spark", field.name
    from cutwater.core.driver.attempt_start import TakeOver
    from cutwater.core.driver.tombstone_gc import Collector
    from cutwater_spark.epoch.barriers import BarrierLog
    from cutwater_spark.epoch.row_proof import ProvedRows

    driver = Services().driver
    assert (driver.take_over, driver.barrier_log, driver.proved_rows) == (TakeOver, BarrierLog, ProvedRows)
    assert driver.collector is Collector


def test_a_failing_history_is_shrunken_to_one_that_fails_alike() -> None:
    """Steps are taken out while the anomaly stays: what is left is short enough to read."""
    guard = next(one for one in GUARDS if one.name == "cut bound of the view")
    assert isinstance(guard.way, Climate)
    histories = (history_of(seed, climate=guard.way) for seed in range(100))

    def goes_wrong(profile: Profile, candidate: Sequence[Step]) -> bool:
        with guard.hole():
            found = anomaly_of(profile, candidate)
        return found is not None and found.kind in guard.anomalies

    profile, steps = next(one for one in histories if goes_wrong(*one))
    fails = partial(goes_wrong, profile)
    short = shrink(steps, fails)
    assert fails(short)
    assert len(short) < len(steps) / 3
    assert not any(fails(short[:at] + short[at + 1 :]) for at in range(len(short)))


def test_a_driver_that_wakes_after_its_successor_has_gone_on_is_fenced_and_its_row_never_shown() -> None:
    """A stalls in epoch 1, B replays 1 and runs 2 and 3, A wakes and writes an old row, a barrier, then dies.

    The generation ends at B's next barrier, which names the row; every milestone that is shown is right.
    """
    world = seen(zombie_of_the_generation).world
    assert "attempt 1 epoch 1" in world.stopped["driver"]
    assert len(world.checker.truths) >= 4


def test_an_old_barrier_after_the_new_ones_is_not_taken() -> None:
    """A tells epoch 1 after B has: Kafka fences A, and the milestone is B's."""
    world = seen(old_barrier).world
    assert world.faults["FencedError driver"]
    assert [one.milestone.attempt for one in world.checker.truths[1:]] == [2] * len(world.checker.truths[1:])


def test_an_epoch_told_differently_after_its_milestone_ends_the_generation() -> None:
    """A's telling was committed; B's differs: commit-signal stops, and nothing of B's is shown."""
    world = seen(two_tellings).world
    assert "reports it differently" in world.stopped["signal"]
    assert [one.milestone.attempt for one in world.checker.truths] == [1]


def test_repeated_rows_above_a_milestone_are_passed_over() -> None:
    """A's telling was committed; B wrote the same rows again: they are read past, and the job goes on."""
    world = seen(repeated_rows).world
    assert not world.stopped
    assert len(world.checker.truths) >= 2


def test_a_view_whose_rows_were_lost_stops_at_the_milestone_before() -> None:
    """The log has lost an acknowledged row: count and digest say so, and the view stays where it was right."""
    world = seen(lost_row).world
    assert world.shown["view"] == 1
    assert "Rows were lost" in world.stopped["view"]


def test_a_view_that_was_away_for_longer_than_tombstones_brings_nothing_back() -> None:
    """Deleted keys do not come back: the horizon drops their windows, with their tombstones or without."""
    world = seen(cleared_while_away).world
    last = world.checker.truths[-1]
    assert world.shown["view"] == last.milestone.sequence
    old = {key_bytes(*window) for window in world.checker.truths[0].state}
    assert old.isdisjoint(key_bytes(*window) for window in last.state)
    kept = [_window_end(key) for key in world.tables["view"].rows if key[:1] == b"\x01"]
    assert kept
    assert min(kept) > _oldest(last)


def _window_end(storage: bytes) -> int:
    return key_layout.parse(storage).end_ms


def _oldest(truth: Truth) -> int:
    """Windows that end here or before may not even lie in the store: whole segments below the horizon are gone."""
    return truth.milestone.horizon_ms - key_layout.segment_ms(JOB)


def test_the_checker_names_what_it_sees() -> None:
    """The checker is checked: a state with a hole, one of the future and one of before are told apart."""
    checker = play(*history_of(3)).checker
    truth = next(one for one in checker.truths[1:] if one.changed and set(one.state) - one.changed)
    milestone, state = truth.milestone, truth.state
    checker.look_at_state("right", milestone, state)
    kept, changed = sorted(set(state) - truth.changed)[0], sorted(truth.changed)
    for kind, wrong in (
        (LOST_WRITE, {window: row for window, row in state.items() if window != kept}),
        (ABORTED_READ, {**state, kept: (state[kept][0] + 1_000, 0)}),
        (LOST_WRITE, {window: row for window, row in state.items() if window not in changed}),
    ):
        with pytest.raises(Anomaly, match=kind):
            checker.look_at_state("wrong", milestone, wrong)
    with pytest.raises(Anomaly, match=INVERSION):
        checker.look_at_changes("wrong", 2, 2, 2, {})
    with pytest.raises(Anomaly, match=GAP):
        checker.look_at_changes("wrong", 0, 2, 2, {})
