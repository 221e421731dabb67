"""Check by counts that a seed is exactly the parent's state at its milestone.

The seed is read from the parent's changelog, and the milestone proves its own rows by count and digest. If the
changelog can no longer be complete, a snapshot of exactly this milestone replaces it: its view proved every
milestone that it applied, and its files are verified. `core.state.snapshot_set` selects snapshots.
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
class SeedCounts:
    """Counts from reading a parent's changelog up to the milestone's cut."""

    records: int
    """All records below the cut."""
    foreign: int
    """Rows that this generation did not write."""
    later: int
    """Records of writers after the milestone: below the cut only if the log has lost its end."""
    own_rows: int
    """Keys that the milestone's own epoch wrote."""
    own_digest: int
    """Digest of the milestone's own rows."""
    unreadable: int
    """Keys or values that are not in this job's format."""
    other_windows: int
    """Windows that the job does not produce."""
    deleted: int
    """Windows above the horizon whose newest record is a tombstone."""
    seeds: int
    """Rows above the horizon."""


def require_state(parent: Milestone, read: SeedCounts, written: int) -> None:
    """Raise DivergenceError or UsageError if the rows read are not the parent's state, UnavailableError if the
    number `written` differs: an attempt that is fenced unnoticed may lose its files to its successor."""
    topic = parent.changelog_cut.entries[0][0].topic
    ended = "Start the generation from a milestone of another one"
    if read.foreign:
        raise DivergenceError(
            f"{topic}: {read.foreign} rows below milestone {parent.token} were not written by "
            f"{parent.generation}. {ended}"
        )
    if read.later:
        raise DivergenceError(
            f"{topic}: {read.later} records below milestone {parent.token} were written after it: the log has "
            f"lost its end, with records of the milestone, and was then written again. {ended}"
        )
    if read.unreadable:
        raise DivergenceError(
            f"{topic}: {read.unreadable} records below milestone {parent.token} are no rows of this job. {ended}"
        )
    if read.other_windows:
        raise UsageError(
            f"{topic}: {read.other_windows} rows below milestone {parent.token} are of windows that the job file "
            "does not produce: a generation keeps its parent's window. Put the job file back"
        )
    if read.deleted:
        raise DivergenceError(
            f"{topic}: {read.deleted} windows above the horizon of {parent.token} were deleted. {ended}"
        )
    if wrong := mismatch(parent, read.own_rows, read.own_digest):
        raise DivergenceError(f"{topic}: {wrong}. Rows were lost, changed or added. {ended}")
    _require_written(topic, read.seeds, written)


class Given(NamedTuple):
    """Rows of a snapshot, as written to files for Spark."""

    rows: int
    digest: int
    """Signed XOR of the lines' xxhash64."""


@dataclass(frozen=True)
class SeedRowCounts:
    """Spark's counts of these rows."""

    rows: int
    seeds: int
    """Those that become seeds: above the horizon of a larger pane."""
    digest: int
    unreadable: int
    """Values that are not in this job's format."""
    other_windows: int
    """Windows that the job does not produce."""


def require_taken(parent: Milestone, given: Given, taken: SeedRowCounts, written: int) -> None:
    """Raise as `require_state` does if the seed is not exactly the snapshot's rows."""
    if (given.rows, given.digest) != (taken.rows, taken.digest):
        raise UnavailableError(
            f"{taken.rows} rows with digest {taken.digest} were read from a snapshot of {parent.token}, but "
            f"{given.rows} with digest {given.digest} were written to its files: another process changes them"
        )
    if taken.unreadable:
        raise DivergenceError(
            f"{taken.unreadable} rows of a snapshot of {parent.token} are no rows of this job. Start the "
            "generation from another milestone"
        )
    if taken.other_windows:
        raise UsageError(
            f"{taken.other_windows} rows of a snapshot of {parent.token} are of windows that the job file does "
            "not produce: a generation keeps its parent's window. Put the job file back"
        )
    _require_written("a snapshot", taken.seeds, written)


def _require_written(where: str, read: int, written: int) -> None:
    if written != read:
        raise UnavailableError(
            f"the files hold {written} seeds, but {read} were read from {where}: another process changes them"
        )


def may_be_overtaken(parent: Milestone, now_ms: int) -> bool:
    """Return whether records above the milestone's cut must be checked; not while it is younger than the lag."""
    return not fresh(parent, now_ms)


def compaction_risk(parent: Milestone, first_above_ms: Iterable[int | None], now_ms: int) -> str:
    """Return why compaction may have removed values below the milestone's cut; empty if it cannot have. Checked
    when the reader passes the cut, and earlier to avoid useless reading. `first_above_ms`: as in `contained`."""
    if contained(first_above_ms, now_ms):
        return ""
    return f"compaction may have removed rows below the cut of {parent.token}, for newer ones above it"


def missing_changelog(parent: Milestone, kept: Mapping[TopicPartition, tuple[int, int]]) -> str:
    """Return which part of the changelog below the milestone's cut is gone; empty if none is. `kept`: first offset
    and end of each changelog partition. Compaction moves neither."""
    for place, offset in parent.changelog_cut:
        first, end = kept[place]
        if offset and first:
            return f"{place.topic}/{place.partition} begins at offset {first}: records below the cut were deleted"
        if end < offset:
            return (
                f"{place.topic}/{place.partition} ends at offset {end}, below the {offset} of {parent.token}: the "
                "topic was truncated or recreated"
            )
    return ""
