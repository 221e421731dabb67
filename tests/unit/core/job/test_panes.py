"""Windows of panes, against a brute force."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.job.panes import windows_of
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


@given(sizes, times, st.integers(-120, 120), st.integers(0, 200))
def test_windows_of_panes_are_those_of_the_events(
    window: WindowSpec, events: list[int], above_ms: int, length_ms: int
) -> None:
    """Each window once, in order, with the events of all its panes: as if Spark had multiplied the events."""
    panes: dict[int, list[int]] = {}
    for event in events:
        (start,) = window.panes.starts(event)
        panes.setdefault(start + window.panes.size_ms, []).append(event)
    up_to_ms = above_ms + length_ms
    wanted: dict[int, list[int]] = {}
    for event in sorted(events):
        for start in window.starts(event):
            if above_ms < start + window.size_ms <= up_to_ms:
                wanted.setdefault(start, []).append(event)
    found = windows_of(sorted(panes.items()), window, above_ms, up_to_ms)
    merged = [(start, sorted(event for pane in held for event in pane)) for start, held in found]
    assert merged == sorted(wanted.items())
    everything = [start for start, _ in windows_of(sorted(panes.items()), window)]
    assert everything == sorted({start for event in events for start in window.starts(event)})
