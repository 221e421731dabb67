"""What differs between two states, whatever pieces they come in."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.output.state_diff import Rows, diff_states

NAMES = st.binary(min_size=1, max_size=2)
STATES = st.dictionaries(NAMES, st.sampled_from([b"a1", b"a2", b"b1", b"c"]), max_size=40)
SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=50)


def pieces(state: dict[bytes, bytes], sizes: list[int]) -> Iterator[Rows]:
    rows, at = sorted(state.items()), 0
    while at < len(rows):
        size = sizes[at % len(sizes)]
        yield rows[at : at + size]
        at += size


def same(one: bytes, two: bytes) -> bool:
    return one[:1] == two[:1]


@given(STATES, STATES, SIZES, SIZES)
def test_what_is_new_other_or_gone_is_named_in_order(
    old: dict[bytes, bytes], new: dict[bytes, bytes], some: list[int], others: list[int]
) -> None:
    wanted = [
        (name, new.get(name))
        for name in sorted({*old, *new})
        if name not in old or name not in new or not same(old[name], new[name])
    ]
    assert list(diff_states(pieces(old, some), pieces(new, others), same)) == wanted


@given(STATES, STATES, SIZES, SIZES)
def test_where_everything_is_to_be_said_nothing_is_left_out(
    old: dict[bytes, bytes], new: dict[bytes, bytes], some: list[int], others: list[int]
) -> None:
    wanted = [(name, new.get(name)) for name in sorted({*old, *new})]
    assert list(diff_states(pieces(old, some), pieces(new, others), None)) == wanted


@given(STATES, STATES, SIZES, SIZES)
def test_the_difference_makes_one_state_the_other(
    old: dict[bytes, bytes], new: dict[bytes, bytes], some: list[int], others: list[int]
) -> None:
    """Applied to the old state it gives the new one."""
    made = {**old, **dict(diff_states(pieces(old, some), pieces(new, others), lambda one, two: one == two))}
    assert {name: value for name, value in made.items() if value is not None} == new


def test_rows_that_are_shown_alike_are_no_difference() -> None:
    """`same` decides for rows that lie apart, too, where the pieces do not hold the same places."""
    old, new = {b"a": b"a1", b"b": b"b1", b"c": b"a1"}, {b"a": b"a2", b"c": b"a2"}
    assert list(diff_states(pieces(old, [2]), pieces(new, [1]), same)) == [(b"b", None)]


def test_a_row_that_has_changed_is_a_difference_wherever_it_stands() -> None:
    """In pieces that hold the same places, and in such that do not."""
    old, new = {b"a": b"a1", b"b": b"b1"}, {b"a": b"b1", b"b": b"b1", b"c": b"c"}
    for size in (1, 2, 3):
        found = diff_states(pieces(old, [2]), pieces(new, [size]), same)
        assert list(found) == [(b"a", b"b1"), (b"c", b"c")]
