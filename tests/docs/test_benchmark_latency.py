"""The arithmetic of B3 and B6, with plain values: a wrong latency would be believed."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

MS = 1_000_000


def events(part: Any, keys: list[int], times_ms: list[int]) -> Any:
    columns = [np.array(one, dtype=np.int64) for one in (keys, times_ms, [1] * len(keys))]
    return part("windows.workload").Events(*columns)


def test_an_event_is_there_with_the_first_row_that_counts_it(part: Any) -> None:
    """The second event of a window needs a count of two; the next window begins at one; no row, no moment."""
    delays = part("latency.delays")
    made = events(part, [7, 7, 8, 7, 9], [1_000, 2_000, 2_000, 11_000, 2_000])
    assert delays.ordinals(made, 10_000).tolist() == [1, 2, 1, 1, 1]
    rows = [(7, 0, 1, 50), (7, 0, 2, 60), (8, 0, 5, 55), (7, 10_000, 1, 90)]
    assert delays.first_seen(made, 10_000, delays.Sightings.of(rows)).tolist() == [50, 60, 55, 90, -1]
    assert delays.first_seen(made, 10_000, delays.Sightings.of([])).tolist() == [-1] * 5


@given(st.data())
def test_first_sightings_are_those_of_a_plain_search(part: Any, data: st.DataObject) -> None:
    """Whatever the events and rows, each event is found where a search row by row finds it."""
    delays = part("latency.delays")
    made = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 29)), min_size=1, max_size=30))
    counts, rows = dict[tuple[int, int], int](), []
    for at, (key, second) in enumerate(made):  # rows as a job writes them: counts that grow, some left out
        group = (key, second // 10 * 10_000)
        counts[group] = counts.get(group, 0) + 1
        if data.draw(st.booleans()):
            rows.append((*group, counts[group], at))
    shuffled = data.draw(st.permutations(rows))
    found = delays.first_seen(
        events(part, [key for key, _ in made], [1_000 * second for _, second in made]),
        10_000,
        delays.Sightings.of(shuffled),
    )
    so_far = dict[tuple[int, int], int]()
    for (key, second), at in zip(made, found.tolist(), strict=True):
        group = (key, second // 10 * 10_000)
        so_far[group] = so_far.get(group, 0) + 1
        wanted = [row[3] for row in rows if row[:2] == group and row[2] >= so_far[group]]
        assert at == min(wanted, default=-1)


def test_the_steps_of_an_event_add_up_to_its_latency(part: Any) -> None:
    """Waiting and the eight steps, from due to readable, are all there is; view and commit legs lie beside."""
    steps = part("latency.steps")
    at = [10, 13, 20, 22, 30, 31, 33, 40, 55, 47]
    epochs = {3: steps.Moments(*(one * MS for one in at)), 4: steps.Moments(*((one + 100) * MS for one in at))}
    found = steps.per_event(epochs, np.array([3, 3, 4]), np.array([2 * MS, 9 * MS, 50 * MS]))
    total = found[steps.WAIT] + sum(found[name] for name in steps.STEPS)
    assert total.tolist() == [53.0, 46.0, 105.0]
    assert found[steps.WAIT].tolist() == [8.0, 1.0, 60.0]
    assert found[steps.PREPARED_COMMITTED].tolist() == [11.0] * 3
    assert found[steps.COMMITTED_VISIBLE].tolist() == [14.0] * 3
    assert steps.epoch_ms(epochs, np.array([3, 4])) == 100.0
    assert steps.epoch_ms(epochs, np.array([3, 3])) is None
    assert steps.step_statistics(found)[steps.WAIT]["mean"] == 23.0


def latency_run(part: Any, contender: str, pair: int, p99: float, **more: Any) -> Any:
    place = {"p50": p99 / 2, "p99": p99, "p99.9": p99, "max": p99}
    known = {"rate": 1000, "events": 10, "delays": {"readable": place}, "curves": {"readable": [p99]}}
    known |= {
        "start_s": 1.0,
        "cpu_s": 1.0,
        "broker_cpu_s": 1.0,
        "memory_mb_peak": 1.0,
        "generator_late_ms": {},
        "load": 1.0,
    }
    return part("latency.outcome").LatencyRun(
        contender=contender, pair=pair, **(known | {"exact": True, "fault": None} | more)
    )


def test_a_latency_ratio_above_one_means_that_we_are_faster(part: Any) -> None:
    """Theirs over ours, within pair and rate; a run that is not exact makes the whole result so."""
    report = part("latency.report")
    runs = [
        latency_run(part, "ours", 1, 600.0, epoch_ms=300.0), latency_run(part, "peer", 1, 300.0),
        latency_run(part, "ours", 2, 600.0, epoch_ms=250.0), latency_run(part, "peer", 2, 2400.0),
        latency_run(part, "peer", 2, 1.0, rate=10_000, exact=False, fault="of 9 rows 1 is missing"),
    ]  # fmt: skip
    found = report.ratios(runs, "ours", ("readable",))
    assert found["readable p99 at 1000/s/peer"] == {"median": 2.25, "min": 0.5, "max": 4.0, "pairs": 2}
    assert not any("10000" in name for name in found)
    written = report.document("b3", {"cores": 2}, runs, found, {"ping": {"p50": 1.0}})
    assert list(written)[:4] == ["benchmark", "machine", "exact", "ratios"]
    assert written["exact"] is False
    assert written["runs"][0]["p99_in_epochs"] == 2.0
    assert report.verdicts(runs, "ours") == [
        "1,000 events/s: event to readable milestone at p99 takes 2.20 epoch times of 275 ms (at most 3: kept)"
    ]
    assert "of 9 rows 1 is missing" in report.markdown("B3", written, runs, [])


def test_a_plan_s_events_are_due_at_its_rate_from_its_start(part: Any) -> None:
    """Event times are the moments at which they are due; the same plan gives the same events in any process."""
    plan = part("latency.load").Plan(1_000, 5, 10, 5, 3)
    made = plan.made(1_700_000_000_000 * MS)
    assert made.time_ms.tolist() == [1_700_000_000_000 + number for number in range(20)]
    again = part("latency.load").Plan(1_000, 0, 20, 0, 3).made(1_700_000_000_000 * MS)
    assert (again.key == made.key).all()
    assert (again.value == made.value).all()


def test_a_setting_takes_the_place_of_ours_or_takes_it_away(part: Any) -> None:
    """Empty is away; options of the JVM are put behind ours."""
    tune = part("latency.tuned_driver").tune
    ours = {"spark.a": "1", "spark.b": "2", "spark.driver.extraJavaOptions": "-Dx"}
    wanted = {"spark.a": "3", "spark.b": "", "java.options": "-XX:+UseG1GC", "progress": "file"}
    assert tune(ours, wanted) == {"spark.a": "3", "spark.driver.extraJavaOptions": "-Dx -XX:+UseG1GC"}


def test_the_protocol_s_price_is_held_against_its_limit(part: Any) -> None:
    """Nine tenths of the bare sink's throughput are enough; the other figures have no limit."""
    b6 = part("b6")
    found = {"throughput/bare-sink": {"median": 0.9}, "cpu/bare-sink": {"median": 0.5}}
    assert b6.verdicts(found) == ["throughput/bare-sink: 0.9 (at least 0.9: kept)"]
    assert "not kept" in b6.verdicts({"throughput/bare-sink": {"median": 0.89}})[0]


def test_sizes_of_the_latency_benchmark_are_seconds_at_its_lowest_rate(part: Any) -> None:
    """At ten times the rate a run lasts as long, and the warm-up too."""
    options = part("b3").COMMAND.parse(["--size", "5000", "--rates", "1000", "10000", "--warm", "2"])
    plans = [options.plan(rate) for rate in options.rates]
    assert [(one.warm, one.measured, one.seconds) for one in plans] == [
        (2_000, 5_000, 10.0),
        (20_000, 50_000, 10.0),
    ]
