"""Windows of panes, against a brute force."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.job.panes import merged_windows
from cutwater.core.job.windows import WindowSpec

sizes = st.tuples(st.integers(1, 30), st.integers(1, 30)).map(lambda two: WindowSpec(max(two), min(two)))
times = st.lists(st.integers(-100, 100), max_size=20)


@given(sizes, times)
def test_windows_hold_whole_panes(window: WindowSpec, events: list[int]) -> None:
    """Each event is in one pane, and its windows are those that hold the pane."""
    panes = window.panes
    for event in events:
        (start,) = panes.starts(event)
        for other in (start, start + panes.size_ms - 1):
            assert window.starts(other) == window.starts(event)


def panes_of(window: WindowSpec, events: list[int]) -> list[tuple[int, tuple[int, ...]]]:
    found: dict[int, tuple[int, ...]] = {}
    for event in sorted(events):
        (start,) = window.panes.starts(event)
        end = start + window.panes.size_ms
        found[end] = (*found.get(end, ()), event)
    return sorted(found.items())


@given(sizes, times, st.integers(-120, 120), st.integers(0, 200))
def test_windows_of_panes_are_those_of_the_events(
    window: WindowSpec, events: list[int], above_ms: int, length_ms: int
) -> None:
    """Each window once, in order, with the events of all its panes in order: as if Spark had multiplied them."""
    up_to_ms = above_ms + length_ms
    wanted: dict[int, tuple[int, ...]] = {}
    for event in sorted(events):
        for start in window.starts(event):
            wanted[start] = (*wanted.get(start, ()), event)
    panes = panes_of(window, events)
    assert list(merged_windows(panes, window, lambda one, two: one + two)) == sorted(wanted.items())
    some = {at: held for at, held in wanted.items() if above_ms < at + window.size_ms <= up_to_ms}
    assert list(merged_windows(panes, window, lambda one, two: one + two, above_ms, up_to_ms)) == sorted(
        some.items()
    )


@given(sizes, times, st.integers(-100, 100))
def test_the_order_of_merges_does_not_depend_on_where_reading_began(
    window: WindowSpec, events: list[int], first_ms: int
) -> None:
    """Sums of floating-point numbers are equal for every reader: the same merges in the same order."""
    panes = [(end, str(held)) for end, held in panes_of(window, events)]
    everything = dict(merged_windows(panes, window, lambda one, two: f"({one}{two})"))
    later = [(end, held) for end, held in panes if end > first_ms]
    for start, value in merged_windows(later, window, lambda one, two: f"({one}{two})"):
        if start >= first_ms:
            assert value == everything[start]


@given(sizes, times)
def test_merges_are_few(window: WindowSpec, events: list[int]) -> None:
    """Two for each pane, and one for each window."""
    merges = 0

    def merge(one: int, two: int) -> int:
        nonlocal merges
        merges += 1
        return one + two

    panes = [(end, len(held)) for end, held in panes_of(window, events)]
    windows = list(merged_windows(panes, window, merge))
    assert merges <= 2 * len(panes) + len(windows)
