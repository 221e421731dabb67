"""Is a seed the parent's state at its milestone, whole and nothing else? Decided by what was counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cutwater.core.errors import DivergenceError, UnavailableError, UsageError
from cutwater.core.records import Milestone
from cutwater.core.restore import contained, fresh, mismatch


@dataclass(frozen=True)
class Read:
    """What was counted while a parent's changelog was read up to the milestone's cut."""

    records: int
    """All that stand there."""
    foreign: int
    """Rows that this generation did not write."""
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
    if written != read.seeds:
        raise UnavailableError(
            f"{written} seeds stand in the files, and {read.seeds} were read from {topic}: somebody changes them"
        )


def may_be_overtaken(parent: Milestone, now_ms: int) -> bool:
    """Must somebody look above the milestone's cut? Not while it is younger than compaction waits."""
    return not fresh(parent, now_ms)


def require_contained(parent: Milestone, first_above_ms: Iterable[int | None], now_ms: int) -> None:
    """Raise UsageError where compaction may have taken values below the milestone's cut.

    Asked when the cut was passed; `first_above_ms` as `contained` has it.
    """
    if not contained(first_above_ms, now_ms):
        raise UsageError(
            f"milestone {parent.token} can no longer be read whole: compaction may have taken rows below its cut, "
            "for newer ones above it. Give this generation up, and start one from a later milestone"
        )
