"""Bound and interval of epochs: within what the job allows, equal for equal inputs, steady under noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.cadence.decisions import BURST, EVERY_S, Decision
from cutwater.core.cadence.epoch_cadence import Epoch, EpochBounds, EpochCadence
from cutwater.core.cadence.epoch_costs import ASSUMED_STRETCH, REMEMBERED, SLOWER_YET, EpochCosts
from cutwater.core.cadence.epoch_setting import LEAST_EVENTS, DriverLoad, choose_setting, stepped
from cutwater.core.job.job import Objectives
from support.cadence.traces import READABLE, TRACES, controlled

BOUNDS = EpochBounds(1_000_000, 512 << 20, 500, 12.0)
OBJECTIVES = st.builds(
    Objectives,
    st.none() | st.integers(500, 86_400_000),
    st.none() | st.integers(5_000, 86_400_000),
).filter(lambda one: one != Objectives())
EPOCHS = st.lists(
    st.builds(
        lambda after, events, size, waiting, seconds, paused: (after, events, size, waiting, seconds, paused),
        st.floats(0, 1e4),
        st.integers(0, 10**9),
        st.integers(0, 10**12),
        st.integers(0, 10**12),
        st.floats(0, 1e4),
        st.floats(0, 100),
    ),
    max_size=40,
)
Plain = list[tuple[float, int, int, int, float, float]]


def played(cadence: EpochCadence, epochs: Plain) -> list[tuple[float, Decision]]:
    """The decisions with their times."""
    found, now = [(0.0, cadence.begin())], 0.0
    for after, events, size, waiting, seconds, paused in epochs:
        decision = cadence.epoch_took(Epoch(now, events, size, waiting, seconds, 0.0, paused))
        if decision is not None:
            found.append((now + seconds, decision))
        now += seconds + after
    return found


@given(OBJECTIVES, EPOCHS, st.integers(1, 10**9), st.integers(1, 10**12), st.floats(0, 1e4))
def test_no_epoch_makes_a_setting_beyond_the_bounds(
    objectives: Objectives, epochs: Plain, events_max: int, bytes_max: int, start_s: float
) -> None:
    """Whatever is observed; and the interval is never longer than what readers wait for."""
    cadence = EpochCadence(objectives, EpochBounds(events_max, bytes_max, 500, start_s))
    decisions = played(cadence, epochs)
    for _, one in decisions:
        assert min(LEAST_EVENTS, events_max) <= one.sets["events_max"] <= events_max
        assert 0 <= one.sets["interval_ms"] <= (objectives.readable_p99_ms or 500)
    assert 1 <= cadence.limit <= events_max
    assert decisions[-1][1].sets == cadence.setting._asdict()


@given(OBJECTIVES, EPOCHS)
def test_equal_inputs_give_equal_decisions(objectives: Objectives, epochs: Plain) -> None:
    """No clock, no chance."""
    one, other = (played(EpochCadence(objectives, BOUNDS), epochs) for _ in range(2))
    assert one == other


@given(OBJECTIVES, EPOCHS)
def test_decisions_are_bounded_in_number(objectives: Objectives, epochs: Plain) -> None:
    """Of any time, so many at once and one each EVERY_S."""
    times = [at_s for at_s, _ in played(EpochCadence(objectives, BOUNDS), epochs)]
    for first in range(len(times)):
        for last in range(first, len(times)):
            assert last - first + 1 <= BURST + 1e-6 + (times[last] - times[first]) / EVERY_S


def test_a_load_that_always_changes_is_decided_on_now_and_then() -> None:
    """A driver whose rate changes each minute by a hundred times: half an hour of epochs of a second."""
    cadence = EpochCadence(READABLE, BOUNDS)
    made = []
    for second in range(1_800):
        events = 400 if second // 60 % 2 else 40_000
        seconds = 0.4 + events * 2e-5
        made.append(cadence.epoch_took(Epoch(float(second), events, events, 0, seconds)))
    assert 30 <= sum(one is not None for one in made) <= BURST + 1_800 / EVERY_S


def test_the_allowance_holds_back_what_is_too_much() -> None:
    """Epochs of half a millisecond, each full and of another cost than those before."""
    cadence = EpochCadence(READABLE, BOUNDS)
    made = []
    for number in range(2_000):
        events = cadence.limit
        seconds = (0.3, 30.0)[number // 4 % 2]
        made.append(cadence.epoch_took(Epoch(number / 2_000, events, events, 0, seconds)))
    times = sum(one is not None for one in made)
    assert BURST - 1 <= times <= BURST + 31 / EVERY_S


def test_the_bound_on_bytes_holds_at_once() -> None:
    """Behind one epoch of large events, without a decision, also while the JVM is warmed."""
    cadence = EpochCadence(READABLE, EpochBounds(1_000_000, 64 << 20, 500, 12.0))
    assert cadence.epoch_took(Epoch(0.0, 100, 100 << 20, 0, 1.0)) is None
    assert cadence.limit == 64
    assert cadence.is_full(60)
    assert not cadence.is_full(50)


def test_noise_decides_nothing() -> None:
    """Half an hour of a steady load, epochs up to a tenth longer or shorter: in all there are three decisions."""
    steady = replace(TRACES[0], lasts_s=1_800.0)
    for seed in range(2):
        assert len(controlled(steady, seed).decisions) <= 3


def load(**values: float | Sequence[float]) -> DriverLoad:
    usual = {"events_per_s": 20_000, "fixed_s": 0.4, "event_s": 5e-6, "stretches": (), "paused_s": 0.0}
    return DriverLoad(**{**usual, "start_s": 12.0, "events_max": 10**9, "interval_ms": 500, **values})  # type: ignore[arg-type]


@given(st.integers(500, 10**6), st.floats(0, 1e5), st.floats(0.01, 5), st.floats(1e-7, 1e-4))
def test_what_is_wanted_keeps_the_objective_of_readers(
    readable_ms: int, events_per_s: float, fixed_s: float, event_s: float
) -> None:
    """An event that waits for a whole interval and its epoch is readable in time, if that is possible at all."""
    found = choose_setting(
        Objectives(readable_ms), load(events_per_s=events_per_s, fixed_s=fixed_s, event_s=event_s)
    )
    interval_s = found.setting.interval_ms / 1_000
    if interval_s and events_per_s * event_s <= 0.9:
        assert interval_s + fixed_s + interval_s * events_per_s * event_s + 0.3 <= readable_ms / 1_000


@given(
    st.lists(st.floats(0, 20) | st.floats(0, 1e4), max_size=5),
    st.integers(500, 10**5),
    st.floats(0, 1e5),
    st.floats(0.01, 5),
)
def test_slow_epochs_at_most_halve_the_interval_and_are_readable_in_time_else(
    stretches: list[float], readable_ms: int, events_per_s: float, fixed_s: float
) -> None:
    """Those that no interval would make readable in time count for nothing."""
    usual, found = (
        choose_setting(
            Objectives(readable_ms), load(events_per_s=events_per_s, fixed_s=fixed_s, stretches=one)
        ).setting.interval_ms
        / 1_000
        for one in ((), stretches)
    )
    assert usual / 2 - 0.05 <= found <= usual
    left_s = 0.95 * readable_ms / 1_000 - 0.4
    slowest = max((one for one in stretches if one * fixed_s < left_s), default=1.0)
    if found > usual / 2:
        assert found + slowest * (fixed_s + found * min(events_per_s * 5e-6, 0.95)) <= left_s + 1e-6
    if slowest <= 1:
        assert found == usual


@given(st.integers(30_000, 600_000), st.floats(0, 1e5), st.floats(0.01, 2), st.floats(1e-6, 1e-5))
def test_an_epoch_is_repeated_within_the_objective_for_recovery(
    recovery_ms: int, events_per_s: float, fixed_s: float, event_s: float
) -> None:
    """By the formula at the top of `epoch_setting`, if the start leaves time for it."""
    given_load = load(events_per_s=events_per_s, fixed_s=fixed_s, event_s=event_s)
    found = choose_setting(Objectives(20_000, recovery_ms), given_load).setting
    busy = events_per_s * event_s
    epoch_s = fixed_s + found.events_max * event_s
    if busy < 0.9 and epoch_s > 1.0 and found.interval_ms > 1_000:
        took_s = (12.0 + epoch_s * (1 + busy)) / (1 - busy) + found.interval_ms / 1_000
        assert took_s <= recovery_ms / 1_000


@pytest.mark.parametrize(
    ("objectives", "given_load", "said"),
    [
        (READABLE, load(fixed_s=2.5), "readable within 2 s is out of reach, so epochs follow each other"),
        (READABLE, load(), "epochs take 0.50 s, and slow ones 0.50 s, so with this interval events are readable"),
        (READABLE, load(stretches=(1.0, 1.6)), "epochs take 0.47 s, and slow ones 0.76 s, so with this interval"),
        (
            READABLE,
            load(stretches=(3.0, 1.0)),
            "slow ones 1.35 s: the interval is half of what it is without slow",
        ),
        (Objectives(20_000, 30_000), load(), "with a longer interval a recovery would take too long"),
        (Objectives(None, 60_000), load(), "the job file has no readable_p99"),
    ],
)
def test_the_interval_has_its_reason(objectives: Objectives, given_load: DriverLoad, said: str) -> None:
    """What an operator reads in `cutwater cadence`."""
    assert said in choose_setting(objectives, given_load).why_interval


@pytest.mark.parametrize(
    ("objectives", "given_load", "said"),
    [
        (READABLE, load(), "an epoch of a backlog may take 8.0 s, since 0.40 s are fixed"),
        (READABLE, load(events_max=20_000), "the job file allows no more (max_events_per_epoch)"),
        (Objectives(2_000, 25_000), load(), "would take too long to repeat after a crash"),
        (
            Objectives(2_000, 10_000),
            load(),
            "a start takes 12.0 s and the load is 10%: the objective for recovery",
        ),
    ],
)
def test_the_bound_has_its_reason(objectives: Objectives, given_load: DriverLoad, said: str) -> None:
    """The same."""
    assert said in choose_setting(objectives, given_load).why_events


def test_bounds_are_steps() -> None:
    """Of the root of two, from the least on."""
    assert [stepped(one) for one in (1, 1_000, 1_414, 1_415, 2_000, 250_000)] == [
        1000,
        1000,
        1000,
        1414,
        2000,
        181019,
    ]


def test_costs_are_found_from_epochs_of_different_sizes() -> None:
    """To a tenth; the usual fixed time hardly counts then."""
    costs = EpochCosts()
    for number in range(30):
        events = (20_000, 400_000, 60_000)[number % 3]
        costs.add(events, 0.2 + events * 8e-6)
    assert costs.fixed_s == pytest.approx(0.2, rel=0.25)
    assert costs.event_s == pytest.approx(8e-6, rel=0.1)


def test_one_long_epoch_is_a_pause_and_two_are_a_change() -> None:
    """A pause of the machine changes no forecast."""
    costs = EpochCosts()
    for _ in range(20):
        costs.add(20_000, 0.5)
    costs.add(20_000, 30.0)
    assert costs.seconds(20_000) == pytest.approx(0.5, rel=0.05)
    costs.add(20_000, 0.5)
    costs.add(20_000, 1.5)
    assert costs.seconds(20_000) == pytest.approx(0.5, rel=0.05)
    costs.add(20_000, 1.6)
    assert costs.seconds(20_000) == pytest.approx(1.5, rel=0.15)


def test_a_slow_epoch_is_remembered_for_so_many_epochs() -> None:
    """And a quarter more is expected of the next one. Noise counts as it is."""
    costs = EpochCosts()
    for number in range(REMEMBERED):
        assert max(costs.stretches) == ASSUMED_STRETCH
        costs.add(20_000, 0.5 + number % 2 / 100)
    assert max(costs.stretches) == pytest.approx(1.02, rel=0.02)
    costs.add(20_000, 1.0)
    for _ in range(REMEMBERED - 1):
        costs.add(20_000, 0.5)
        assert max(costs.stretches) == pytest.approx(SLOWER_YET * 2.0, rel=0.05)
    costs.add(20_000, 0.5)
    assert max(costs.stretches) == pytest.approx(1.0, rel=0.05)


def test_empty_epochs_are_not_remembered() -> None:
    """A job whose topic is quiet for a night knows nothing better about its epochs."""
    costs = EpochCosts()
    for _ in range(REMEMBERED):
        costs.add(0, 0.1)
    assert costs.stretches == [ASSUMED_STRETCH]


def test_a_sink_that_is_slow_for_good_has_no_slow_epochs() -> None:
    """Behind two of them the line is theirs; and a change of their sizes says nothing of their times."""
    costs = EpochCosts()
    for number in range(REMEMBERED):
        costs.add((20_000, 200_000)[number % 2], (0.5, 1.4)[number % 2])
    for _ in range(REMEMBERED - 10):
        costs.add(20_000, 1.5)
    assert max(costs.stretches) == pytest.approx(1.0, rel=0.05)
    for _ in range(10):
        costs.add(20_000, 0.5)
    assert max(costs.stretches) > 2.0


def test_a_slow_epoch_makes_the_interval_shorter_for_a_while() -> None:
    """Two epochs later, until it is forgotten."""
    cadence, intervals = EpochCadence(READABLE, BOUNDS), []
    for second in range(300):
        slow = 1.0 if second == 150 else 0.4
        cadence.epoch_took(Epoch(float(second), 20_000, 20_000, 0, slow))
        intervals.append(cadence.setting.interval_ms)
    assert intervals[10] < intervals[149] > intervals[152] < intervals[160 + REMEMBERED] == intervals[149]
    assert intervals[152 : 150 + REMEMBERED] == [intervals[152]] * (REMEMBERED - 2)
