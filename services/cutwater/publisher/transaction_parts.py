"""Splits a milestone's rows into parts of one transaction each. Pure: pieces in, parts out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.views.changelog.row_batch import Piece


def split_pieces(pieces: Iterable[Piece], rows_max: int, bytes_max: int) -> Iterator[tuple[list[Piece], bool]]:
    """Yield parts of at most `rows_max` rows and `bytes_max` bytes, in order, each with whether it is the last.
    Yields at least one part. A row larger than `bytes_max` is a part of its own."""
    part: list[Piece] = []
    rows, bytes_ = rows_max, bytes_max
    for piece in pieces:
        rest = piece
        while len(rest):
            count = rest.fitting(rows, bytes_)
            if part and not count:
                yield part, False
                part, rows, bytes_ = [], rows_max, bytes_max
                continue
            taken, rest = rest.split(max(1, count))
            part.append(taken)
            rows, bytes_ = rows - len(taken), bytes_ - taken.size
    yield part, True


def advance_cut(since: Cut, topic: str, part: Sequence[Piece]) -> Cut:
    """Return `since`, advanced by the part's changelog offsets."""
    newest = {piece.partition: piece.offsets[-1] + 1 for piece in part}  # 0 if the rows are not from the changelog
    return Cut.of(since.as_dict() | {TopicPartition(topic, at): offset for at, offset in newest.items() if offset})
