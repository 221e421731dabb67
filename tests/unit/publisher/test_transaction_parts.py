"""A milestone's rows in parts: bounded in rows and bytes, in order, and none left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.protocol.cuts import Cut
from cutwater.publisher.transaction_parts import advance_cut, split_pieces
from cutwater.views.changelog.row_batch import Piece, pieces_of

ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.binary(min_size=1, max_size=4), st.binary(max_size=30)), max_size=40
)


def pieces(rows: list[tuple[int, bytes, bytes]]) -> list[Piece]:
    return list(pieces_of((partition, at, key, value) for at, (partition, key, value) in enumerate(rows)))


@given(ROWS, st.integers(1, 9), st.integers(1, 80))
def test_parts_hold_every_row_in_order_within_both_bounds(
    rows: list[tuple[int, bytes, bytes]], rows_max: int, bytes_max: int
) -> None:
    """Only the last part is the last; a part is above the bytes only where it is one row."""
    found = list(split_pieces(pieces(rows), rows_max, bytes_max))
    flat = [(piece.partition, *row) for part, _ in found for piece in part for row in piece.rows()]
    assert flat == rows
    assert [last for _, last in found] == [*[False] * (len(found) - 1), True]
    for part, _ in found:
        count, size = sum(map(len, part)), sum(piece.size for piece in part)
        assert count <= rows_max
        assert size <= bytes_max or count == 1
        assert part or len(found) == 1


@given(ROWS, st.integers(1, 9))
def test_a_part_moves_the_progress_to_its_last_row_in_each_partition(
    rows: list[tuple[int, bytes, bytes]], rows_max: int
) -> None:
    """Part by part: where the changelog goes on behind the newest row of it, and no partition goes back."""
    at, done = Cut(), 0
    for part, _ in split_pieces(pieces(rows), rows_max, 1 << 20):
        at = advance_cut(at, "changelog", part)
        done += sum(map(len, part))
        newest = {partition: number for number, (partition, _, _) in enumerate(rows[:done], 1)}
        assert {place.partition: offset for place, offset in at} == newest
