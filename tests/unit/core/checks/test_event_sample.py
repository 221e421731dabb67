"""What `cutwater plan` counts in a sample of events, against counting by hand."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.checks.capacity import Load, estimate, list_uncertainties, row_bytes_of, sizes_of
from cutwater.core.checks.event_sample import SampledEvent, measure_sample
from cutwater.core.checks.sketch_sizes import sketch_bytes
from cutwater.core.job.measures import THETA, THETA_BYTES_MAX
from cutwater.core.job.windows import WindowSpec

MINUTE = 60_000
FLIGHTS = load_job(Path(__file__).parents[4] / "deploy/jobs/flights.yaml")
JOB = replace(FLIGHTS, window=WindowSpec(MINUTE, MINUTE), lateness_ms=0, retention_ms=10 * MINUTE)


def events(seconds: int, keys: int = 5, carriers: int = 3) -> list[SampledEvent]:
    """Ten events a second, in two partitions; keys come alike, carriers by turns."""
    return [
        SampledEvent(number % 2, number * 100, f"k{number % keys}", 80, {"carrier": f"c{number % carriers}"})
        for number in range(seconds * 10)
    ]


def test_rows_of_theta_sketches_are_larger() -> None:
    """By the values of their windows, of which up to 4,096 count; without a sample the largest are assumed."""
    theta = replace(JOB, measures=tuple(replace(one, sketch=one.sketch and THETA) for one in JOB.measures))
    found = measure_sample(theta, events(600, keys=1, carriers=500), 0.5, None)
    assert found is not None
    assert found.state.sketches == {"carriers": sketch_bytes(500, THETA)}
    assert row_bytes_of(theta) == row_bytes_of(JOB) + THETA_BYTES_MAX - 4_136
    [_, size] = list_uncertainties(theta, None, measured=False, said=False)
    assert "a sketch of carriers takes 16 B to 32,792 B" in size


def test_whole_windows_are_counted_by_hand() -> None:
    """Five keys a minute; the first and last minutes, which the sample may have cut, do not count."""
    found = measure_sample(JOB, events(600), 0.5, None)
    assert found is not None
    assert found.whole_windows in (8, 9)
    assert found.rows_per_window == 5
    assert found.keys == 5
    assert found.events_per_s == pytest.approx(10, rel=0.02)
    assert found.rows_per_epoch == pytest.approx(5, rel=0.1), "five events of half a second are five keys"
    assert found.state.sketches == {"carriers": 40}
    assert found.state.key == 2
    assert list_uncertainties(JOB, found, measured=False, said=False) == []
    comes_to = estimate(JOB, Load(events_per_s=10, keys=5), sizes_of(JOB, found.state, found.written), found)
    assert comes_to.live_rows == pytest.approx(11 * 5)
    assert comes_to.rows_per_s == pytest.approx(10, rel=0.1)


def test_rows_as_they_are_written_have_younger_sketches() -> None:
    """A window of many different values is written many times while its sketch still grows."""
    found = measure_sample(JOB, events(600, keys=1, carriers=500), 0.5, None)
    assert found is not None
    assert 140 < found.written.sketches["carriers"] < found.state.sketches["carriers"] == 4_136


def test_uneven_keys_are_counted_and_not_taken_to_come_alike() -> None:
    """One key in a hundred thousand, 99 of 100 events: the formula of even keys would tell far more rows."""
    rng = random.Random(5)
    rare = [one._replace(key="k" if rng.random() < 0.99 else f"r{rng.randrange(10**5)}") for one in events(600)]
    found = measure_sample(JOB, rare, 0.5, None)
    assert found is not None
    assert found.rows_per_window == pytest.approx(7, abs=2)
    even = estimate(JOB, Load(events_per_s=10, keys=10**5)).live_rows
    assert even > 50 * estimate(JOB, Load(events_per_s=10, keys=10**5), None, found).live_rows


def test_what_a_sample_cannot_tell_is_said() -> None:
    """No sample, no whole window, less than one epoch, another load than the sample's: each by its sentence."""
    short = measure_sample(JOB, events(30), 0.5, None)
    assert short is not None
    assert short.rows_per_window is None
    assert "no whole window" in list_uncertainties(JOB, short, measured=False, said=False)[0]
    few = measure_sample(JOB, events(600), 3_600, None)
    assert few is not None
    assert "less than one epoch" in list_uncertainties(JOB, few, measured=False, said=False)[0]
    assert "not the sample's" in list_uncertainties(JOB, few, measured=False, said=True)[0]
    assert len(list_uncertainties(JOB, None, measured=False, said=False)) == 2, "and what its sketches come to"
    assert len(list_uncertainties(JOB, None, measured=True, said=False)) == 1
    assert measure_sample(JOB, [], 0.5, None) is None


def test_a_few_late_events_do_not_move_the_edges() -> None:
    """One event in five hundred is hours old: the sample still begins where most of it does."""
    found = measure_sample(
        JOB, [one._replace(time_ms=one.time_ms + 36 * 10**5 * (n % 500 > 0)) for n, one in enumerate(events(600))],
        0.5, None,
    )  # fmt: skip
    assert found is not None
    assert found.rows_per_window == 5


def alone(*times_ms: int) -> list[SampledEvent]:
    """Events of one partition, each of another key."""
    return [SampledEvent(0, at, f"k{number}", 80, {"carrier": "c"}) for number, at in enumerate(times_ms)]


def test_a_window_that_the_sample_just_covers_is_whole() -> None:
    """From its first to its last event; one millisecond less, and the last window does not count."""
    for newest, whole, rows in ((3 * MINUTE - 1, 2, 3), (3 * MINUTE, 3, 4)):
        found = measure_sample(JOB, alone(0, 1, MINUTE, 2 * MINUTE, newest), 0.5, None)
        assert found is not None
        assert found.whole_windows == whole
        assert found.rows_per_window == pytest.approx(rows / whole)


def test_windows_between_sparse_events_take_no_memory() -> None:
    """A few events of 30 days, in windows of a second."""
    job = replace(JOB, window=WindowSpec(1_000, 1_000))
    tracemalloc.start()
    try:
        found = measure_sample(job, alone(*(day * 86_400_000 for day in range(31))), 0.5, None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found is not None
    assert found.whole_windows == 30 * 86_400
    assert found.rows_per_window == 30 / (30 * 86_400)
    assert peak < 5_000_000


def test_of_a_single_event_there_is_one_a_second() -> None:
    found = measure_sample(JOB, alone(MINUTE), 0.5, None)
    assert found is not None
    assert (found.events_per_s, found.span_ms, found.rows_per_epoch) == (1, 0, 1)


def test_an_epoch_has_at_least_one_event() -> None:
    """However short: then each event writes its row."""
    found = measure_sample(JOB, events(600), 0.001, None)
    assert found is not None
    assert found.rows_per_epoch == 1
