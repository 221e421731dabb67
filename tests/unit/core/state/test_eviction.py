"""What `max_bytes` lets go of: closed windows only, the oldest, as few as will do, and never back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.state.eviction import evict

LENGTH = 10
sizes = st.dictionaries(st.integers(-20, 20), st.integers(0, 100), max_size=12)
times = st.integers(-250, 250)
bounds = st.one_of(st.none(), times)


def end(number: int) -> int:
    return (number + 1) * LENGTH


@given(sizes, st.integers(0, 400), times, times, bounds)
def test_closed_ones_only_and_no_more_than_needed(
    segments: dict[int, int], most: int, watermark: int, horizon: int, lower: int | None
) -> None:
    """Every open window stays; without the last of those dropped there would be too much; what stays is told."""
    found = evict(segments, LENGTH, most, watermark, horizon, lower)
    gone = max(horizon, lower) if lower is not None else horizon
    held = {number: size for number, size in segments.items() if end(number) > gone}
    kept = {number: size for number, size in held.items() if number not in found.segments}
    assert all(end(number) <= watermark for number in found.segments), "an open window was evicted"
    assert found.bytes == sum(held[number] for number in found.segments)
    assert found.left_bytes == sum(kept.values())
    assert found.over_bytes == max(0, sum(kept.values()) - most)
    if found.segments:
        assert sum(kept.values()) + held[found.segments[-1]] > most, "one less would have done"
        assert found.lower_ms == end(found.segments[-1])
        assert all(end(number) > found.lower_ms for number, size in kept.items() if size), "not the oldest"
    if found.over_bytes:
        assert all(end(number) > watermark for number, size in kept.items() if size), "a closed one would help"


@given(sizes, st.integers(0, 400), times, times, bounds)
def test_the_lower_bound_never_falls_and_nothing_goes_twice(
    segments: dict[int, int], most: int, watermark: int, horizon: int, lower: int | None
) -> None:
    """Asked again with the same sizes, as happens until the next census, it answers the same and drops nothing."""
    found = evict(segments, LENGTH, most, watermark, horizon, lower)
    assert lower is None or (found.lower_ms is not None and found.lower_ms >= lower)
    again = evict(segments, LENGTH, most, watermark, horizon, found.lower_ms)
    assert (again.segments, again.bytes, again.lower_ms) == ((), 0, found.lower_ms)
    assert again.over_bytes == found.over_bytes


def test_one_example_in_words() -> None:
    """Of 90 bytes 50 may stay: the two oldest segments go; the third would be open, were the watermark 25."""
    segments = {0: 30, 1: 20, 2: 25, 3: 15}
    found = evict(segments, LENGTH, 50, 35, -1, None)
    assert (found.lower_ms, found.segments, found.bytes, found.over_bytes) == (20, (0, 1), 50, 0)
    found = evict(segments, LENGTH, 10, 25, -1, None)
    assert (found.lower_ms, found.segments, found.over_bytes) == (20, (0, 1), 30)
