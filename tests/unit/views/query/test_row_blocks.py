"""Blocks of rows: what is read is what was written, in pieces of any size, and a part is never the whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.views.query.row_blocks import Bytes, block_of, blocks_in, columns_of, end_block, take_rows
from cutwater.views.store.key_layout import Window, storage_key

HOUR_MS = 3_600_000
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(["", "\x00", "a\x00\x00b"])
times = st.integers(-(1 << 62), 1 << 62)
rows = st.tuples(st.builds(Window, keys, times, times), st.binary(max_size=40))
pieces = st.lists(st.lists(rows, min_size=1, max_size=6), max_size=4)
Rows = list[tuple[Window, bytes]]


def stored(piece: Rows) -> list[tuple[bytes, bytes]]:
    return [(storage_key(window, HOUR_MS), value) for window, value in piece]


def answer(made: list[Rows]) -> bytes:
    return b"".join(map(block_of, map(stored, made))) + end_block(sum(map(len, made)))


def cut(text: bytes, size: int) -> Iterator[bytes]:
    return (text[at : at + size] for at in range(0, len(text), size))


def read(text: bytes, size: int = 1 << 20) -> Rows:
    return [row for columns in blocks_in(Bytes(cut(text, size))) for row in columns.rows()]


@given(pieces, st.integers(1, 50))
def test_rows_come_back_as_they_were(made: list[Rows], size: int) -> None:
    """Whatever the keys, times and values, and however the answer comes in pieces."""
    wanted = [row for piece in made for row in piece]
    assert read(answer(made), size) == wanted
    assert [row for piece in made for row in columns_of(stored(piece)).rows()] == wanted


@given(pieces, st.data())
def test_an_answer_that_is_cut_or_lacks_rows_is_an_error(made: list[Rows], data: st.DataObject) -> None:
    text = answer(made)
    with pytest.raises(ValueError, match="cut short"):
        read(text[: data.draw(st.integers(0, len(text) - 1))])
    with pytest.raises(ValueError, match="rows are missing"):
        read(text[:-8] + (sum(map(len, made)) + 1).to_bytes(8, "little"))


def test_a_damaged_block_is_an_error_and_takes_no_memory() -> None:
    """Lengths that do not fit, and a block of four gigabytes."""
    block = bytearray(block_of(stored([(Window("ab", 0, HOUR_MS), b"value")])))
    block[12] += 1
    with pytest.raises(ValueError, match="do not fit"):
        read(bytes(block))
    with pytest.raises(ValueError, match="too large"):
        read(b"\x01\x00\x00\x00" + b"\xff" * 8)


def test_the_first_line_is_read_apart() -> None:
    reader = Bytes(cut(b'{"a": 1}\n' + answer([]), 3))
    assert reader.line() == b'{"a": 1}'
    assert list(blocks_in(reader)) == []
    with pytest.raises(ValueError, match="cut short"):
        reader.line()


def test_rows_with_large_values_are_taken_in_small_numbers() -> None:
    """Before the bytes of thousands of them are in memory."""
    given = 0

    def rows() -> Iterator[tuple[bytes, bytes]]:
        nonlocal given
        for given in range(1, 2_001):
            yield b"%04d" % given, b"v" * 100_000

    left = rows()
    pieces = []
    while piece := take_rows(left, 2_000, 1_000_000):
        pieces.append(len(piece))
        assert given == sum(pieces)
    assert set(pieces) == {50}
    assert sum(pieces) == 2_000


@pytest.mark.parametrize("rows_max", [1, 49, 50, 51, 120])
def test_small_rows_are_taken_up_to_their_number(rows_max: int) -> None:
    rows = [(b"%04d" % number, b"v") for number in range(240)]
    left, found = iter(rows), []
    while piece := take_rows(left, rows_max, 1 << 20):
        found.append(piece)
    assert [row for piece in found for row in piece] == rows
    assert {len(piece) for piece in found[:-1]} == {rows_max}
