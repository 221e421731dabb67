"""The heat map: bounded, nothing lost when columns are merged, and a hot lane stays visible."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.console.heat_map import BANDS_MAX, CELLS_MAX, WIDTH_MS, WIDTH_MS_MAX, HeatMap

STEPS = st.lists(
    st.tuples(st.integers(0, 400_000), st.lists(st.integers(0, 50), min_size=3, max_size=3)), max_size=60
)


def filled(steps: list[tuple[int, list[int]]], **options: Any) -> HeatMap:
    found, at_ms = HeatMap(3, **options), 0
    for later_ms, values in steps:
        at_ms += later_ms
        assert found.take(at_ms, values)
    return found


@given(STEPS)
def test_merged_columns_keep_every_number(steps: list[tuple[int, list[int]]]) -> None:
    """The sum over all columns is the sum of what was taken; there are never more columns than allowed."""
    found = filled(steps, columns_max=10_000)
    shown = found.picture()
    assert sum(map(sum, shown["cells"])) == sum(sum(values) for _, values in steps)
    small = filled(steps, columns_max=8).picture()
    assert small["columns"] <= 8
    assert small["width_ms"] == WIDTH_MS_MAX or sum(map(sum, small["cells"])) == sum(map(sum, shown["cells"]))


@given(STEPS)
def test_the_totals_are_those_of_the_columns_shown(steps: list[tuple[int, list[int]]]) -> None:
    """Also after the oldest columns were forgotten."""
    found = filled(steps, columns_max=4)
    columns = found.picture()["cells"]
    totals = [sum(column[lane] for column in columns) for lane in range(3)]
    shown = {one["lane"]: one["value"] for one in found.hottest()}
    assert shown == {lane: value for lane, value in enumerate(totals) if value}


@given(STEPS, st.integers(1, 3))
def test_a_picture_is_the_same_whether_it_was_drawn_before(steps: list[tuple[int, list[int]]], bands: int) -> None:
    """What is remembered of a picture never differs from a new one."""
    often, at_ms = HeatMap(3, columns_max=5), 0
    for later_ms, values in steps:
        at_ms += later_ms
        often.take(at_ms, values)
        often.picture(bands_max=bands)
    assert often.picture(bands_max=bands) == filled(steps, columns_max=5).picture(bands_max=bands)


def test_a_gauge_shows_the_newest_value() -> None:
    """Two censuses in a column are no sum."""
    found = HeatMap(2, gauge=True)
    found.take(1_000, [5, 6])
    found.take(1_500, [7, 1])
    assert found.picture()["cells"] == [[7, 1]]
    assert [(one["lane"], one["value"]) for one in found.hottest()] == [(0, 7), (1, 1)]


def test_of_a_band_the_hottest_lane_is_shown() -> None:
    found = HeatMap(10_000)
    found.take(0, [1] * 4_321 + [900] + [1] * 5_678)
    shown = found.picture()
    assert (shown["band"], shown["bands"]) == (20, 500)
    assert shown["bands"] <= BANDS_MAX
    assert [one for one in shown["cells"][0] if one == 900] == [900]
    inside = found.picture(4_320, 4_340)
    assert (inside["band"], inside["bands"], inside["cells"][0][1]) == (1, 20, 900)
    assert found.hottest(1) == [{"lane": 4_321, "value": 900, "per_mille": 82}]


@pytest.mark.parametrize(("first", "end"), [(-5, None), (9, 3), (50, 60), (0, 10**9)])
def test_lanes_beyond_the_map_are_no_error(first: int, end: int | None) -> None:
    found = HeatMap(10)
    found.take(0, list(range(10)))
    shown = found.picture(first, end)
    assert 0 <= shown["first"] <= shown["end"] <= 10


def test_other_lanes_are_refused() -> None:
    found = HeatMap(2)
    assert not found.take(0, [1, 2, 3])
    assert (found.version, found.picture()["cells"], found.hottest()) == (0, [], [])


def test_very_many_lanes_have_fewer_columns() -> None:
    """The memory of a map is bounded, whatever the number of lanes."""
    lanes = 65_536
    found = HeatMap(lanes)
    for at in range(100):
        found.take(at * WIDTH_MS, [1] * lanes)
    assert found.picture(0, 1)["columns"] * lanes <= CELLS_MAX


def test_after_a_long_pause_the_oldest_columns_are_forgotten() -> None:
    """At the largest width time does not become coarser any more."""
    found = HeatMap(1, columns_max=4)
    found.take(0, [1])
    found.take(100 * WIDTH_MS_MAX, [2])
    shown = found.picture()
    assert (shown["width_ms"], shown["cells"]) == (WIDTH_MS_MAX, [[2]])


def test_a_clock_that_was_set_back_adds_to_the_newest_column() -> None:
    found = HeatMap(1)
    found.take(10 * WIDTH_MS, [1])
    found.take(5 * WIDTH_MS, [2])
    assert found.picture()["cells"] == [[3]]
