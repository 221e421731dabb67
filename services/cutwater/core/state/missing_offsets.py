"""Which offsets a reader still needs and a log holds no longer: the exact gap, to be told to a person.

Compaction leaves a log's first and last offset where they are. Only who deletes records or the topic moves them.
"""

from __future__ import annotations

from collections.abc import Mapping


def gaps(needed: Mapping[int, tuple[int, int]], kept: Mapping[int, tuple[int, int]]) -> list[str]:
    """What is missing, a text for each partition that lacks something.

    `needed`: by partition, the next offset that a reader asks for, and the end of what it needs; the end is not
    above the offset where it needs nothing yet. `kept`: the log's first offset and its end, open transactions
    included.
    """
    found = []
    for partition, (position, end) in sorted(needed.items()):
        low, high = kept[partition]
        if position < low:
            found.append(f"partition {partition} begins at {low}: {_offsets(position, low)} were deleted")
        if max(position, end) > high:
            lost = _offsets(max(low, high), max(position, end))
            found.append(f"partition {partition} ends at {high}: {lost}, which it held, are not there any more")
    return found


def _offsets(first: int, end: int) -> str:
    return f"offset {first}" if end == first + 1 else f"offsets {first} to {end - 1}"
