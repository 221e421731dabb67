"""What keeps a topic from being copied on without a gap: found before anything is copied, told exactly.

Compaction stops nothing: it leaves the first and the last offset of a log where they are. What it takes only
leaves milestones without arrival (`cutwater.core.mirror.copy_progress`).
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
    ANEW: "the origin's topic was made anew",
    PARTITIONS: "the number of partitions has changed",
    LOST: "the origin's log begins above the position, or ends below it",
    UNPLACED: "there are records here that no position accounts for",
    REPLACED: "the log here has lost some of what the position says",
    REFUSED: "the origin does not let the mirror read it, or the topic here cannot take it",
    BROKEN: "the copied commit stream contradicts itself: no milestone arrives",
    SCHEMAS: "a number of the origin's schema registry is another schema in the registry here",
}


class Gap(NamedTuple):
    """Why a topic stands still."""

    cause: str
    """A key of CAUSES."""
    text: str
    """What is missing, exactly."""


def in_origin(
    topic: str, topic_id: str, partitions: int, positions: Collection[Mirrored], here: int | None
) -> Gap | None:
    """Is the origin's topic still the one that was copied? `here`: partitions of its copy; None without one."""
    for one in positions:
        if one.topic_id != topic_id:
            copied = f"partition {one.partition} up to offset {one.next - 1}"
            return Gap(
                ANEW,
                f"{topic} was deleted in {one.origin} and made anew: {copied} is a copy of the one before "
                f"({one.topic_id}), and what is there now ({topic_id}) is another log",
            )
    copied_of = {one.partitions for one in positions} | ({here} if here is not None else set())
    if copied_of and copied_of != {partitions}:
        was = ", ".join(map(str, sorted(copied_of - {partitions})))
        return Gap(
            PARTITIONS,
            f"{topic} has {partitions} partitions in the origin, and its copy {was}: keys may lie in other "
            "partitions from some record on, so the copy would not hold their order",
        )
    return None


def in_log(
    topic: str,
    positions: Mapping[int, Mirrored],
    held: Collection[int],
    kept: Mapping[int, tuple[int, int]],
    from_zero: bool,
) -> Gap | None:
    """Does the origin still hold what comes next? `kept`: first offset and end of each partition.

    `from_zero`: a new copy must begin at offset 0 (changelogs, of which nobody deletes).
    """
    needed = {}
    for partition in held:
        known = positions.get(partition)
        first = known.next if known else (0 if from_zero else kept[partition][0])
        needed[partition] = (first, first)
    missing = gaps(needed, kept)
    return Gap(LOST, f"{topic} in the origin: {'; '.join(missing)}") if missing else None


def in_copy(target: str, position: Mirrored | None, partition: int, end: int, empty: bool) -> Gap | None:
    """Does the log here fit the position? `empty`: no committed record stands there from where that ends on."""
    if position is not None and end < position.local:
        return Gap(
            REPLACED,
            f"{target}/{partition} ends at offset {end} here, and up to {position.local} was copied: the topic "
            "was replaced or cut",
        )
    if empty:
        return None
    if position is None:
        return Gap(
            UNPLACED,
            f"{target}/{partition} ends at offset {end} and there is no position of it: they were deleted, or "
            "something else writes there. Delete the topic here, if it is nobody else's",
        )
    return Gap(
        UNPLACED,
        f"{target}/{partition} was copied up to offset {position.local}, and from there to its end at {end} are "
        "records that no position accounts for: somebody else writes there. Find out who, then 'resync'",
    )


def in_origins_log(lost: Collection[str]) -> Gap | None:
    """Does the origin still hold what was copied of it? `lost`: what it does not, in words."""
    text = f"in the origin {'; '.join(lost)}. The copy holds what is not there any more"
    return Gap(LOST, text) if lost else None


def in_copies(lost: Collection[str]) -> Gap | None:
    """Does all stand here that was copied? `lost`: what does not, in words. Other records may be there by now."""
    return Gap(REPLACED, f"of the copy {'; '.join(lost)}. While the region lives: 'resync'") if lost else None
