"""Is a seed the parent's state at its milestone, whole and nothing else? Decided by what was counted.

It is read from the parent's changelog, which proves the milestone's own rows by count and digest. Where that can
no longer be whole, a snapshot of exactly this milestone stands for it: the view that it was taken of had proved
every milestone that it applied, and its bytes are those that were taken. `core.state.snapshot_set` says which one
may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.errors import DivergenceError, UnavailableError, UsageError
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import contained, fresh, mismatch


@dataclass(frozen=True)
class Read:
    """What was counted while a parent's changelog was read up to the milestone's cut."""

    records: int
    """All that stand there."""
    foreign: int
    """Rows that this generation did not write."""
    later: int
    """Records of whoever came behind the milestone: they stand there only if the log has lost its end."""
    own_rows: int
    """Keys that the milestone's own epoch wrote."""
    own_digest: int
    """Of the rows that it wrote."""
    unreadable: int
    """Keys or values that are not in a form that this job has."""
    other_windows: int
    """Windows that the job does not make."""
    deleted: int
    """Windows above the horizon whose newest record is a tombstone."""
    seeds: int
    """Rows above the horizon."""


def require_state(parent: Milestone, read: Read, written: int) -> None:
    """Raise DivergenceError or UsageError where what was read is not the parent's state.

    UnavailableError where other than that was `written`: an attempt that was fenced without knowing it may lose
    its files to its successor.
    """
    topic = parent.changelog_cut.entries[0][0].topic
    ended = "Start the generation from a milestone of another one"
    if read.foreign:
        raise DivergenceError(
            f"{topic}: {read.foreign} rows below milestone {parent.token} were not written by "
            f"{parent.generation}. {ended}"
        )
    if read.later:
        raise DivergenceError(
            f"{topic}: {read.later} records below milestone {parent.token} were written behind it: the log has "
            f"lost its end, with records of the milestone, and was written on. {ended}"
        )
    if read.unreadable:
        raise DivergenceError(
            f"{topic}: {read.unreadable} records below milestone {parent.token} are no rows of this job. {ended}"
        )
    if read.other_windows:
        raise UsageError(
            f"{topic}: {read.other_windows} rows below milestone {parent.token} are of windows that the job file "
            "does not make: a generation goes on with its parent's window. Put the job file back"
        )
    if read.deleted:
        raise DivergenceError(
            f"{topic}: {read.deleted} windows above the horizon of {parent.token} were deleted. {ended}"
        )
    if wrong := mismatch(parent, read.own_rows, read.own_digest):
        raise DivergenceError(f"{topic}: {wrong}. Rows were lost, changed or added. {ended}")
    _require_written(topic, read.seeds, written)


class Given(NamedTuple):
    """Rows of a snapshot, as they were written down for Spark."""

    rows: int
    digest: int
    """Signed XOR of their lines' xxhash64."""


@dataclass(frozen=True)
class Taken:
    """What Spark has counted of them."""

    rows: int
    digest: int
    unreadable: int
    """Values that are not in a form that this job has."""
    other_windows: int
    """Windows that the job does not make."""


def require_taken(parent: Milestone, given: Given, taken: Taken, written: int) -> None:
    """Raise as `require_state` where what stands in the seed is not just what the snapshot held."""
    if (given.rows, given.digest) != (taken.rows, taken.digest):
        raise UnavailableError(
            f"{taken.rows} rows with digest {taken.digest} were read of a snapshot of {parent.token}, and "
            f"{given.rows} with digest {given.digest} were written down: somebody changes the files"
        )
    if taken.unreadable:
        raise DivergenceError(
            f"{taken.unreadable} rows of a snapshot of {parent.token} are no rows of this job. Start the "
            "generation from another milestone"
        )
    if taken.other_windows:
        raise UsageError(
            f"{taken.other_windows} rows of a snapshot of {parent.token} are of windows that the job file does "
            "not make: a generation goes on with its parent's window. Put the job file back"
        )
    _require_written("a snapshot", taken.rows, written)


def _require_written(where: str, read: int, written: int) -> None:
    if written != read:
        raise UnavailableError(
            f"{written} seeds stand in the files, and {read} were read from {where}: somebody changes them"
        )


def may_be_overtaken(parent: Milestone, now_ms: int) -> bool:
    """Must somebody look above the milestone's cut? Not while it is younger than compaction waits."""
    return not fresh(parent, now_ms)


def overtaken(parent: Milestone, first_above_ms: Iterable[int | None], now_ms: int) -> str:
    """Why compaction may have taken values below the milestone's cut; empty where it cannot have.

    Asked when the cut was passed, and sooner to spare the reading; `first_above_ms` as `contained` has it.
    """
    if contained(first_above_ms, now_ms):
        return ""
    return f"compaction may have taken rows below the cut of {parent.token}, for newer ones above it"


def lost(parent: Milestone, kept: Mapping[TopicPartition, tuple[int, int]]) -> str:
    """What of the changelog below the milestone's cut is gone; empty where nothing is.

    `kept`: first offset and end of each of its partitions. Compaction moves neither.
    """
    for place, offset in parent.changelog_cut:
        first, end = kept[place]
        if offset and first:
            return f"{place.topic}/{place.partition} begins at offset {first}: records below the cut were deleted"
        if end < offset:
            return (
                f"{place.topic}/{place.partition} ends at offset {end}, below the {offset} of {parent.token}: the "
                "topic was cut, or made anew"
            )
    return ""
