"""How the chart's autoscaler goes up and down against loads, with the algorithm of Kubernetes."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import yaml

from support.kubernetes.autoscaler import (
    SYNC_S,
    TOLERANCE,
    Autoscaler,
    Behaviour,
    Moment,
    Policy,
    Reader,
    play,
    turns,
)
from support.kubernetes.chart import CHART, named, of_kind, render
from support.kubernetes.values import everything, least

HOUR_S = 3_600
SCALING: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))["readers"]["autoscaling"]
CHARTS = Behaviour.of_values(SCALING)
CPU = {"cpu": SCALING["cpuPercent"] / 100}
BOTH = {**CPU, "backlog": 20.0}
READER = Reader()
HASTY = replace(CHARTS, up_window_s=0, down_window_s=0, down=(Policy(percent=100, period_s=15),))
"""What Kubernetes does without the chart's bounds."""


def needed(requests_per_s: float, tolerance: float = 0.0) -> int:
    """Readers that hold the target; within the tolerance of Kubernetes fewer do."""
    per_reader = (CPU["cpu"] * (1 + tolerance) - READER.following) * READER.requests_per_s
    return max(CHARTS.least, math.ceil(requests_per_s / per_reader))


def fitting(requests_per_s: float) -> range:
    return range(needed(requests_per_s, TOLERANCE), needed(requests_per_s) + 1)


def noise(at_s: int) -> float:
    """Between -1 and 1, different at each sync, the same in each run."""
    return math.sin(at_s * 12.9898) * math.cos(at_s * 0.7)


def settled(course: list[Moment], after_s: int) -> list[Moment]:
    return [one for one in course if one.at_s >= after_s]


def test_a_spike_is_met_within_minutes_and_without_excess() -> None:
    """Three times the load at once: readers restore for a minute each, and no more are started than stay."""
    course = play(CHARTS, lambda at: 80.0 if at < 600 else 260.0, CPU, 2 * HOUR_S)
    assert {one.pods for one in course if one.at_s < 600} == {CHARTS.least}
    late = settled(course, 600 + 420)
    assert max(one.load for one in late) < 1, "requests still wait after seven minutes"
    assert {one.pods for one in settled(course, 600 + 900)} <= {*fitting(260)}
    assert max(one.pods for one in course) <= needed(260)
    assert turns(course) == 0


def test_a_load_that_goes_is_followed_down_slowly() -> None:
    """One reader in five minutes, after ten quiet ones; never below what the load needs; at the end the least."""
    course = play(CHARTS, lambda at: 260.0 if at < HOUR_S else 40.0, CPU, 4 * HOUR_S)
    before = max(one.pods for one in course)
    falling = settled(course, HOUR_S)
    quiet_s = SCALING["scaleDown"]["stabilizationSeconds"]
    assert {one.pods for one in falling if one.at_s < HOUR_S + quiet_s - SYNC_S} == {before}
    falls = [after.at_s for one, after in pairwise(falling) if after.pods < one.pods]
    assert all(one.pods - after.pods <= 1 for one, after in pairwise(falling))
    assert min(b - a for a, b in pairwise(falls)) >= SCALING["scaleDown"]["periodSeconds"]
    assert course[-1].pods == CHARTS.least
    assert len(falls) == before - CHARTS.least
    assert max(one.load for one in falling) < 1


def test_noise_changes_nothing() -> None:
    """A fifth more and less from sync to sync: the number stays where it has settled."""
    course = play(CHARTS, lambda at: 150 * (1 + 0.2 * noise(at)), CPU, 6 * HOUR_S)
    assert len({one.pods for one in settled(course, HOUR_S)}) == 1
    assert turns(course) <= 1


@pytest.mark.parametrize("period_s", [120, 300, 600, 1_200])
def test_a_saw_does_not_make_it_flap(period_s: int) -> None:
    """A load that comes and goes within ten minutes changes nothing; a slower one moves one reader each way."""
    course = play(CHARTS, lambda at: 60 + 180 * (at % period_s) / period_s, CPU, 6 * HOUR_S)
    late = settled(course, HOUR_S)
    teeth = 5 * HOUR_S // period_s
    assert max(one.pods for one in late) - min(one.pods for one in late) <= 1
    assert turns(late) <= (0 if period_s <= SCALING["scaleDown"]["stabilizationSeconds"] else 2 * teeth)


def test_the_same_loads_show_flapping_without_the_bounds() -> None:
    """So the tests above show something: the defaults without windows and with any step down turn all the time."""
    saw = play(HASTY, lambda at: 60 + 180 * (at % 300) / 300, CPU, 6 * HOUR_S)
    assert turns(settled(saw, HOUR_S)) > 60
    noisy = play(HASTY, lambda at: 150 * (1 + 0.2 * noise(at)), CPU, 6 * HOUR_S)
    assert turns(settled(noisy, HOUR_S)) > 60


def test_a_day_is_followed() -> None:
    """Up in the morning, down in the evening, once each; requests never wait."""
    day = play(CHARTS, lambda at: 150 - 120 * math.cos(2 * math.pi * at / (24 * HOUR_S)), CPU, 24 * HOUR_S)
    assert turns(day) == 1
    assert max(one.load for one in day) < 0.8
    assert (day[0].pods, day[-1].pods) == (CHARTS.least, CHARTS.least)
    assert max(one.pods for one in day) in fitting(270)


def busy(at_s: int) -> float:
    """Of two readers nearly all, so that following the stream comes too short."""
    return 40.0 if at_s < 600 else 195.0


def test_lag_by_load_is_cured_by_more_readers() -> None:
    """Requests take the time that following needs; more readers have it, and the use of their cores keeps them."""
    course = play(CHARTS, busy, BOTH, 6 * HOUR_S)
    late = settled(course, 600 + 300)
    assert max(one.backlog for one in course) > BOTH["backlog"]
    assert max(one.backlog for one in late) == 0
    assert turns(course) <= 1


def test_lag_alone_flaps() -> None:
    """It is zero if there are enough readers, so they are taken away until it is there again. It is refused."""
    course = play(CHARTS, busy, {"backlog": BOTH["backlog"]}, 6 * HOUR_S)
    assert turns(course) > 20


def test_lag_that_readers_do_not_cure_costs_the_most_of_them() -> None:
    """Slow brokers hold up every reader: the autoscaler starts all it may, and goes down when it is over."""
    course = play(CHARTS, lambda _at: 60.0, BOTH, 6 * HOUR_S, held_up=lambda at: HOUR_S <= at < 2 * HOUR_S)
    assert {one.pods for one in course if 1.5 * HOUR_S <= one.at_s < 2 * HOUR_S} == {CHARTS.most}
    assert course[-1].pods == CHARTS.least
    assert turns(course) == 1


def test_without_the_measure_of_lag_it_does_not_react_to_brokers() -> None:
    """The reason why it is off by default."""
    course = play(CHARTS, lambda _at: 60.0, CPU, 6 * HOUR_S, held_up=lambda at: HOUR_S <= at < 2 * HOUR_S)
    assert {one.pods for one in course} == {CHARTS.least}


def test_the_bounds_hold() -> None:
    """Whatever the load is."""
    for requests in (0.0, 10_000.0):
        course = play(CHARTS, lambda _at, many=requests: many, BOTH, HOUR_S)
        assert CHARTS.least <= min(one.pods for one in course)
        assert max(one.pods for one in course) <= CHARTS.most


@pytest.mark.parametrize(
    ("current", "ratio", "found"),
    [(4, 1.09, 4), (4, 0.91, 4), (4, 1.5, 6), (4, 5.0, 6), (2, 5.0, 4), (10, 5.0, 15), (4, 0.5, 3), (2, 0.1, 2)],
)
def test_one_decision_is_that_of_kubernetes(current: int, ratio: float, found: int) -> None:
    """Within the tolerance nothing; up by two pods or a half, whichever is more; down by one; at least two."""
    behaviour = replace(CHARTS, most=20, up_window_s=0, down_window_s=0)
    assert Autoscaler(behaviour).decide(0, current, [ratio]) == found


def test_of_two_measures_the_one_that_wants_more_counts() -> None:
    behaviour = replace(CHARTS, up_window_s=0, down_window_s=0)
    assert Autoscaler(behaviour).decide(0, 4, [0.2, 1.5]) == 6


@cache
def rendered() -> dict[str, Any]:
    return named(render(everything()), "HorizontalPodAutoscaler", "flights-reader")["spec"]


@pytest.mark.needs("helm")
def test_what_is_simulated_is_what_is_rendered() -> None:
    """Bounds, windows and policies; what Kubernetes adds by itself is none of it."""
    spec = rendered()
    up, down = spec["behavior"]["scaleUp"], spec["behavior"]["scaleDown"]

    def policies(rule: dict[str, Any]) -> list[Policy]:
        kinds = {"Pods": "pods", "Percent": "percent"}
        return [
            Policy(**{kinds[one["type"]]: one["value"]}, period_s=one["periodSeconds"]) for one in rule["policies"]
        ]

    assert (spec["minReplicas"], spec["maxReplicas"]) == (CHARTS.least, CHARTS.most)
    assert (up["stabilizationWindowSeconds"], down["stabilizationWindowSeconds"]) == (
        CHARTS.up_window_s,
        CHARTS.down_window_s,
    )
    assert (policies(up), policies(down)) == (list(CHARTS.up), list(CHARTS.down))
    assert up["selectPolicy"] == "Max"


@pytest.mark.needs("helm")
def test_its_measures_are_metrics_of_a_view() -> None:
    """Use of the requested core, requests in progress, and milestones that are not applied yet."""
    from support.pages import text_of

    measured = rendered()["metrics"]
    assert measured[0]["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
    for one in measured[1:]:
        assert f"| `{one['pods']['metric']['name']}` | gauge |" in text_of("docs/METRICS.md")
    assert {one["pods"]["target"]["averageValue"] for one in measured[1:]} == {"8", "20"}


@pytest.mark.needs("helm")
def test_it_is_off_by_default() -> None:
    assert not of_kind(render(least(readers={"enabled": True})), "HorizontalPodAutoscaler")
    assert named(render(least(readers={"enabled": True})), "Deployment", "flights-reader")["spec"]["replicas"] == 2
