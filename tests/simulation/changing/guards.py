"""The guards of generations that compute other things than their parents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cutwater.client import from_output
from cutwater.client.decoding import Decoder
from cutwater.client.values import CommittedMilestone
from cutwater.core.generations import seed_change
from cutwater.core.generations.job_change import JobChange
from cutwater.core.generations.seed_change import SeedChange
from cutwater.core.job.job import Job
from cutwater.core.job.measures import Measure
from cutwater.core.output.position import End
from cutwater.core.protocol.records import Milestone
from cutwater.operations.generations import redefinition
from cutwater.publisher.handover import row_sameness
from cutwater.publisher.handover.handover import HandoverRunner
from cutwater.views.store.store import Store
from simulation.checker import ABORTED_READ, FALSE_ALARM, INCOMPLETE, LOST_WRITE, STUCK
from simulation.guards import Guard
from simulation.histories import Climate
from simulation.holes import off

_milestone = from_output._milestone


def shared_alone(change: SeedChange, measures: Sequence[Measure]) -> Callable[[Any, Any], bool]:
    """What only the new row has is not looked at."""
    known = {new for new, old in change.columns if old is not None}
    return _same_row(change, [one for one in measures if {part.column for part in one.partials} <= known])


_same_row = seed_change.same_row


def by_the_watermark(change: JobChange, _before: Job, _after: Job, parent: Milestone, _newest_ms: int) -> int:
    """As if no window above it had a row yet."""
    return parent.watermark_ms if change.has_new else 0


def by_their_starts(end: End, rows: list[bytes], decoder: Decoder) -> CommittedMilestone:
    """Of two windows that begin together the later row counts."""
    found = _milestone(end, rows, decoder)
    changes = {(one.key, one.window_start_ms): one for one in found.changes}
    return replace(found, changes=tuple(changes.values()))


def by_the_new_windows(self: HandoverRunner, floor_ms: int, _old: Store, whole: Milestone) -> int:
    """The old state is taken for one of the new windows' panes."""
    overlap_ms = self._job.overlap_ms
    return max(floor_ms, whole.horizon_ms + overlap_ms) if overlap_ms and whole.horizon_ms else floor_ms


def _of(*, weights: Mapping[str, float] | None = None, **profile: Any) -> Climate:
    calm = dict.fromkeys(("abort", "prune", "lose-store", "roll-back", "late-row"), 0.0)
    return Climate({"generations": True, "changes": True, **profile}, {**calm, "claim": 5.0, **(weights or {})})


CHANGE_GUARDS = (
    Guard(
        "window X is behind the newest row",
        "a window that is called complete in what is new, and lacks events from before the milestone",
        "I2",
        off(redefinition, "complete_from_ms", by_the_watermark),
        _of(),
        frozenset({INCOMPLETE}),
    ),
    Guard(
        "a value that is new is told",
        "rows that a hand-over leaves out, since all that the old row had is as it was",
        "I4",
        off(row_sameness, "same_row", shared_alone),
        _of(final=False),
        frozenset({LOST_WRITE}),
    ),
    Guard(
        "a generation's rows with its own job file",
        "rows of a promoted generation that are read and written by the job file of the one before",
        "I4",
        off(HandoverRunner, "_require_own_job"),
        _of(),
        frozenset({FALSE_ALARM, STUCK, LOST_WRITE, ABORTED_READ}),
    ),
    Guard(
        "a window is known by its start and its end",
        "a deletion, or a new row, that a reader misses where windows of two lengths begin together",
        "I4",
        off(from_output, "_milestone", by_their_starts),
        _of(final=False, sliding=False),
        frozenset({LOST_WRITE}),
    ),
    Guard(
        "old windows are complete by their own panes",
        "old windows above the horizon that a hand-over does not delete, as the new ones have panes",
        "I4",
        off(HandoverRunner, "_known_above_ms", by_the_new_windows),
        _of(final=False, sliding=False),
        frozenset({LOST_WRITE}),
    ),
)
