"""Windows: which ones hold an event, against a brute force; and the horizon."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.job.windows import MAX_WINDOWS_PER_EVENT, WindowSpec, horizon_ms


@given(st.integers(1, 60), st.integers(1, 60), st.integers(-200, 200))
def test_starts_are_those_a_brute_force_finds(size: int, slide: int, event_time: int) -> None:
    """An event is in every window [start, start + size) that holds its time, before 1970 too."""
    if slide > size:
        size, slide = slide, size
    aligned = [start for start in range(-400, 401) if start % slide == 0]
    expected = [start for start in aligned if start <= event_time < start + size]
    assert WindowSpec(size, slide).starts(event_time) == expected


@given(st.integers(1, 10**9), st.integers(-(10**15), 10**15))
def test_a_tumbling_event_is_in_one_window(size: int, event_time: int) -> None:
    """Tumbling windows neither overlap nor leave gaps."""
    window = WindowSpec(size, size)
    [start] = window.starts(event_time)
    assert window.tumbling
    assert start <= event_time < start + size


@pytest.mark.parametrize(
    ("size", "slide", "said"),
    [
        (0, 1, "longer than zero"),
        (1, 0, "longer than zero"),
        (-5, -5, "longer than zero"),
        (10, 11, r"slide \(11 ms\) is longer than size \(10 ms\)"),
        (MAX_WINDOWS_PER_EVENT + 1, 1, f"more than {MAX_WINDOWS_PER_EVENT} windows"),
    ],
)
def test_windows_that_lose_or_multiply_events_are_refused(size: int, slide: int, said: str) -> None:
    """A slide longer than the size would lose events; a tiny slide would multiply them without bound."""
    with pytest.raises(UsageError, match=said):
        WindowSpec(size, slide)


@given(st.integers(0, 10**13), st.integers(0, 10**13), st.integers(0, 10**6))
def test_the_horizon_follows_the_watermark(watermark: int, retention: int, more: int) -> None:
    """At the distance of the retention, never before zero, never backwards."""
    horizon = horizon_ms(watermark, retention)
    assert horizon == (watermark - retention if watermark > retention else 0)
    assert horizon_ms(watermark + more, retention) >= horizon
