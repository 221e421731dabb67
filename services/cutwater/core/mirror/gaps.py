"""Gaps that stop the copying of a topic, found before anything is copied and reported exactly.

Compaction causes no gap: it does not move the first and last offset of a log. Removed values only leave milestones
without an arrival (`cutwater.core.mirror.copy_progress`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from cutwater.core.protocol.mirror_records import Mirrored
from cutwater.core.state.missing_offsets import gaps

GONE, ANEW, PARTITIONS, LOST, UNPLACED, REPLACED, REFUSED, BROKEN, SCHEMAS = (
    "gone",
    "anew",
    "partitions",
    "lost",
    "unplaced",
    "replaced",
    "refused",
    "broken",
    "schemas",
)
CAUSES: Mapping[str, str] = {
    GONE: "the origin has no such topic",
    ANEW: "the origin's topic was recreated",
    PARTITIONS: "the number of partitions has changed",
    LOST: "the origin's log begins above the position, or ends below it",
    UNPLACED: "there are records here that no position accounts for",
    REPLACED: "the log here has lost records below the position",
    REFUSED: "the origin does not let the mirror read it, or the topic here cannot accept it",
    BROKEN: "the copied commit stream contradicts itself, or is of a newer version: no milestone arrives",
    SCHEMAS: "an id of the origin's schema registry is another schema in the registry here",
}


class Gap(NamedTuple):
    """The reason why a topic is not copied."""

    cause: str
    """A key of CAUSES."""
    text: str
    """The exact problem."""


def in_origin(
    topic: str, topic_id: str, partitions: int, positions: Collection[Mirrored], here: int | None
) -> Gap | None:
    """Return a gap if the origin's topic is not the copied one. `here`: the copy's partitions; None without
    one."""
    for one in positions:
        if one.topic_id != topic_id:
            copied = f"partition {one.partition} up to offset {one.next - 1}"
            return Gap(
                ANEW,
                f"{topic} was deleted in {one.origin} and recreated: {copied} is a copy of the old topic "
                f"({one.topic_id}), and the new one ({topic_id}) is another log",
            )
    copied_of = {one.partitions for one in positions} | ({here} if here is not None else set())
    if copied_of and copied_of != {partitions}:
        was = ", ".join(map(str, sorted(copied_of - {partitions})))
        return Gap(
            PARTITIONS,
            f"{topic} has {partitions} partitions in the origin, but its copy has {was}: from some record on, a "
            "key may be in another partition, so the copy would not keep the order",
        )
    return None


def in_log(
    topic: str,
    positions: Mapping[int, Mirrored],
    held: Collection[int],
    kept: Mapping[int, tuple[int, int]],
    from_zero: bool,
) -> Gap | None:
    """Return a gap if the origin no longer holds the next records. `kept`: first offset and end of each partition.
    `from_zero`: a new copy must start at offset 0 (changelogs, whose records are never deleted)."""
    needed = {}
    for partition in held:
        known = positions.get(partition)
        first = known.next if known else (0 if from_zero else kept[partition][0])
        needed[partition] = (first, first)
    missing = gaps(needed, kept)
    return Gap(LOST, f"{topic} in the origin: {'; '.join(missing)}") if missing else None


def in_copy(target: str, position: Mirrored | None, partition: int, end: int, empty: bool) -> Gap | None:
    """Return a gap if the log here does not fit the position. `empty`: there is no committed record after it."""
    if position is not None and end < position.local:
        return Gap(
            REPLACED,
            f"{target}/{partition} ends at offset {end} here, but was copied up to {position.local}: the topic "
            "was replaced or truncated",
        )
    if empty:
        return None
    if position is None:
        return Gap(
            UNPLACED,
            f"{target}/{partition} ends at offset {end} and there is no position of it: positions were deleted, "
            "or another process writes there. Delete the topic here if no other process uses it",
        )
    return Gap(
        UNPLACED,
        f"{target}/{partition} was copied up to offset {position.local}, and from there to its end at {end} are "
        "records that no position accounts for: another process writes there. Find it, then 'resync'",
    )


def in_origins_log(lost: Collection[str]) -> Gap | None:
    """Return a gap if the origin no longer holds the copied records. `lost`: the missing parts, in words."""
    text = f"in the origin {'; '.join(lost)}. The copy holds records that are not there any more"
    return Gap(LOST, text) if lost else None


def in_copies(lost: Collection[str]) -> Gap | None:
    """Return a gap if copied records are missing here. `lost`: the missing parts, in words."""
    return Gap(REPLACED, f"of the copy {'; '.join(lost)}. While the region is up: 'resync'") if lost else None
