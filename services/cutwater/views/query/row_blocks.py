"""Stored rows in blocks of bytes, for exports: many rows at a time, without a text for each.

A block is: the number of rows, the bytes of all keys, and of all values (4 bytes each, little endian); the lengths
of the keys, and of the values (4 bytes each); start and end of each window (8 bytes each, big endian, the sign bit
flipped); the keys in UTF-8; the values as in the changelog. The last block has no rows, and the total follows it
(8 bytes).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from cutwater.adapters.columnar.record_arrays import Texts
from cutwater.views.store import key_layout
from cutwater.views.store.key_layout import Window

MEDIA_TYPE = "application/vnd.cutwater.rows"
BLOCK_BYTES_MAX = 1 << 30
"""A longer block is a damaged answer."""
_HEAD, _TOTAL = struct.Struct("<III"), struct.Struct("<Q")
_TIMES_BYTES = 16
_STEP_ROWS = 50
"""Of which the size is looked at together: row by row an export would take longer."""
_SIGN = 1 << 63


class RowColumns(NamedTuple):
    """Rows by column. Times are arrays of 64-bit numbers, in ms."""

    keys: Texts
    starts: Any
    ends: Any
    values: Texts

    def rows(self) -> Iterator[tuple[Window, bytes]]:
        windows = map(Window, map(bytes.decode, self.keys.cut()), self.starts.tolist(), self.ends.tolist())
        return zip(windows, self.values.cut(), strict=True)


def columns_of(rows: Sequence[tuple[bytes, bytes]]) -> RowColumns:
    """Return stored rows by column."""
    keys, times = _parts(rows)
    return _columns(_texts(keys), times, _texts([value for _, value in rows]))


def joined(pieces: Iterable[RowColumns], rows: int, bytes_max: int) -> Iterator[RowColumns]:
    """Yield pieces of about so many rows, or of about so many bytes of values, in the same order."""
    held: list[RowColumns] = []
    count = size = 0
    for piece in pieces:
        if held and (count + len(piece.starts) > rows or size + len(piece.values.text) > bytes_max):
            yield _join(held)
            held, count, size = [], 0, 0
        held.append(piece)
        count, size = count + len(piece.starts), size + len(piece.values.text)
    if held:
        yield _join(held)


def take_rows(rows: Iterator[tuple[bytes, bytes]], rows_max: int, bytes_max: int) -> list[tuple[bytes, bytes]]:
    """Take the next rows, at most `rows_max`. Rows with large values are fewer: about so many bytes of values."""
    taken: list[tuple[bytes, bytes]] = []
    size = 0
    while size < bytes_max and (some := list(islice(rows, min(_STEP_ROWS, rows_max - len(taken))))):
        taken += some
        size += sum(len(value) for _, value in some)
    return taken


def block_of(rows: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return stored rows as one block."""
    keys, times = _parts(rows)
    values = [value for _, value in rows]
    key_text, value_text = b"".join(keys), b"".join(values)
    lengths = array("I", map(len, keys)).tobytes() + array("I", map(len, values)).tobytes()
    return b"".join([_HEAD.pack(len(rows), len(key_text), len(value_text)), lengths, times, key_text, value_text])


def end_block(rows: int) -> bytes:
    """Return the block that ends so many rows."""
    return _HEAD.pack(0, 0, 0) + _TOTAL.pack(rows)


class Bytes:
    """Reads an answer's bytes in pieces of any size."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._held = bytearray()

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raises ValueError if there are fewer."""
        while len(self._held) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                raise ValueError("the answer was cut short")
            self._held += chunk
        taken = bytes(memoryview(self._held)[:size])
        del self._held[:size]
        return taken

    def line(self) -> bytes:
        """Return the next line, without its end. Raises ValueError if there is none."""
        while (at := self._held.find(b"\n")) < 0:
            chunk = next(self._chunks, None)
            if chunk is None:
                raise ValueError("the answer was cut short")
            self._held += chunk
        return self.take(at + 1)[:-1]


def blocks_in(answer: Bytes) -> Iterator[RowColumns]:
    """Yield the rows of all blocks. Raises ValueError for a damaged or incomplete answer."""
    import numpy as np  # only for exports

    total = 0
    while True:
        rows, key_bytes, value_bytes = _HEAD.unpack(answer.take(_HEAD.size))
        if not rows:
            break
        if rows * (8 + _TIMES_BYTES) + key_bytes + value_bytes > BLOCK_BYTES_MAX:
            raise ValueError("a block is too large")
        lengths = np.frombuffer(answer.take(8 * rows), "<u4").astype(np.int64)
        times = answer.take(_TIMES_BYTES * rows)
        keys, values = answer.take(key_bytes), answer.take(value_bytes)
        if int(lengths[:rows].sum()) != key_bytes or int(lengths[rows:].sum()) != value_bytes:
            raise ValueError("a block's lengths do not fit its bytes")
        yield _columns(Texts(keys, lengths[:rows]), times, Texts(values, lengths[rows:]))
        total += rows
    if _TOTAL.unpack(answer.take(_TOTAL.size))[0] != total:
        raise ValueError("rows are missing")


def _parts(rows: Sequence[tuple[bytes, bytes]]) -> tuple[list[bytes], bytes]:
    """Return the keys in UTF-8, and the times as they are stored."""
    keys = [key_layout.key_bytes_of(place) for place, _ in rows]
    return keys, b"".join([place[-_TIMES_BYTES:] for place, _ in rows])


def _columns(keys: Texts, times: bytes, values: Texts) -> RowColumns:
    import numpy as np

    both = (np.frombuffer(times, ">u8").astype(np.uint64) ^ np.uint64(_SIGN)).view(np.int64)
    return RowColumns(keys, both[::2], both[1::2], values)


def _texts(strings: Sequence[bytes]) -> Texts:
    import numpy as np

    return Texts(b"".join(strings), np.fromiter(map(len, strings), np.int64, len(strings)))


def _join(pieces: Sequence[RowColumns]) -> RowColumns:
    if len(pieces) == 1:
        return pieces[0]
    import numpy as np

    keys, starts, ends, values = zip(*pieces, strict=True)
    texts = (
        Texts(b"".join(one.text for one in some), np.concatenate([one.lengths for one in some]))
        for some in (keys, values)
    )
    return RowColumns(next(texts), np.concatenate(starts), np.concatenate(ends), next(texts))
