"""Offsets that a reader still needs and a log no longer holds: the exact gap, for error messages.

Compaction does not move a log's first and last offset. Only deleting records or the topic does.
"""

from __future__ import annotations

from collections.abc import Mapping

from cutwater.core.protocol.cuts import offsets_text


def gaps(needed: Mapping[int, tuple[int, int]], kept: Mapping[int, tuple[int, int]]) -> list[str]:
    """Return a text for each partition that lacks offsets.

    `needed`: by partition, a reader's next offset and the end of what it needs (not above it if nothing yet).
    `kept`: by partition, the log's first offset and its end, open transactions included.
    """
    found = []
    for partition, (position, end) in sorted(needed.items()):
        low, high = kept[partition]
        if position < low:
            found.append(f"partition {partition} begins at {low}: {offsets_text(position, low)} were deleted")
        if max(position, end) > high:
            lost = offsets_text(max(low, high), max(position, end))
            found.append(f"partition {partition} ends at {high}: {lost} were there before and are missing now")
    return found
