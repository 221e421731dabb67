"""Where records lie here: what is packed says the same as what is not, and the oldest give way."""

from __future__ import annotations

from bisect import bisect_right

from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.core.mirror.copy_progress import Run
from cutwater.core.mirror.offset_map import BLOCK_RUNS, BYTES_MAX, MINUTE_MS, OffsetMap

gaps = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4), st.integers(-5, 90)), max_size=9
)


def trickle(many: int, each: int = 1) -> list[Run]:
    """A transaction each, and the marker behind it."""
    return [Run(number * each, number * (each + 1), each) for number in range(many)]


@given(gaps, st.integers(0, 3 * BLOCK_RUNS))
@settings(max_examples=10)
def test_what_is_packed_is_found_as_it_was_added(drawn: list[tuple[int, int, int, int]], forgotten: int) -> None:
    """Of every cut, whatever gaps there are in the origin, and here, and however the clock goes."""
    found, added = OffsetMap(0), []
    source = local = at_ms = 0
    for number in range(2 * BLOCK_RUNS + 7):
        apart, apart_here, length, minutes = drawn[number % len(drawn)] if drawn else (0, 1, 1, 1)
        source, local, at_ms = source + apart, local + apart_here, at_ms + minutes * MINUTE_MS
        run = Run(source, local, length)
        found.add([run], at_ms + 59_999)
        added.append((run, at_ms))
        source, local = source + length, local + length
    found.forget(min(forgotten, source))
    ends, due = [run.source + run.length for run, _ in added], [*added, None]
    for cut in range(found.known_from, source + 2, 97):
        assert found.above(cut) == due[bisect_right(ends, cut)]


def test_more_than_a_day_of_a_trickle_stays_known() -> None:
    """30 transactions a second, of one to seven events each; 50,000 runs were half an hour."""
    found, source, local = OffsetMap(0), 0, 0
    many = 60 * BLOCK_RUNS
    for number in range(many):
        length = 1 + number * number % 7 * number % 5
        found.add([Run(source, local, length)], number * 1_000 // 30)
        source, local = source + length, local + length + 1
    assert found.known_from == 0
    hours = BYTES_MAX / (found.size / many) / 30 / 3_600
    assert hours > 24, hours


def test_what_is_kept_is_bounded() -> None:
    """The oldest go, and it is said how far."""
    found = OffsetMap(0, bytes_max=2_000)
    for run in trickle(20 * BLOCK_RUNS):
        found.add([run], 0)
    assert found.known_from % BLOCK_RUNS == 0
    assert 0 < found.known_from < 20 * BLOCK_RUNS
    assert found.above(found.known_from) == (Run(found.known_from, 2 * found.known_from, 1), 0)
    assert found.size <= 2_000


def test_what_nobody_asks_for_takes_no_room() -> None:
    """Where milestones arrive all the time, nothing is packed at all."""
    found = OffsetMap(0)
    for run in trickle(3 * BLOCK_RUNS):
        found.add([run], 0)
        found.forget(run.source)
    assert (found.known_from, found.size) == (3 * BLOCK_RUNS - 1, 0)


def test_a_block_that_ends_at_a_forgotten_cut_takes_no_room() -> None:
    """All its records are below the cut."""
    found = OffsetMap(0)
    found.add(trickle(BLOCK_RUNS), 0)
    found.forget(BLOCK_RUNS - 1)
    assert found.size > 0
    found.forget(BLOCK_RUNS)
    assert (found.known_from, found.size) == (BLOCK_RUNS, 0)
