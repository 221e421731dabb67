"""Which measures of a candidate's rows are compared with the promoted generation's, and how a row differs.

Compared are the measures that a generation takes over from its parent: those carried over, and those renamed.
An added or replaced one has other events, and a derived one follows from others. Values within the error of a
sketch are equal, since a sketch depends on the order in which partitions are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutwater.core.checks.state_comparison import RowName
from cutwater.core.errors import UsageError
from cutwater.core.generations.job_change import compare_jobs
from cutwater.core.generations.measure_change import Fate
from cutwater.core.job.job import Job
from cutwater.core.past.replay_reasons import Explainer, LateWindows
from cutwater.core.past.state_difference import RowChange, RowComparer, RowKind, SharedMeasures, ShownRow
from cutwater.core.protocol.records import DifferingRow

TEXT_MAX = 300
"""The most characters of how one row differs."""


class CanaryRows:
    """Compares rows of two jobs. `tolerance`: relative, for floating-point numbers."""

    def __init__(self, live: Job, candidate: Job, tolerance: float) -> None:
        """Raises UsageError if no row of one can be compared with one of the other."""
        self._comparer = RowComparer(live, candidate, tolerance)
        fates = compare_jobs(live, candidate).measures
        kept = {one.before: one.name for one in fates if one.fate in (Fate.CARRIED, Fate.RENAMED)}
        if not kept:
            raise UsageError("the two job files share no measure, so no row can be compared")
        self._names = {theirs: ours for ours, theirs in kept.items()}
        """The name in the promoted generation's job by the name in the candidate's."""
        self._columns = _columns(live, candidate, kept)
        only_before = tuple(one.name for one in live.measures if one.partials and one.name not in kept)
        only_after = tuple(one.name for one in candidate.measures if one.partials and one.name not in self._names)
        self.measures = SharedMeasures(tuple(kept), only_before, only_after)
        self._comparer.measures = self.measures
        shared = [one for one in live.measures if one.name in kept]
        self._sketches = Explainer(shared, LateWindows(()), another=False)
        self.same_form = live.state_schema == candidate.state_schema
        """Whether equal bytes are equal rows."""

    def change(self, name: RowName, live: ShownRow | None, candidate: ShownRow | None) -> RowChange | None:
        """Return how the candidate's row differs; None if it does not. One of both must be there."""
        theirs = None if candidate is None else self._as_live(candidate)
        found = self._comparer.change(name, live, theirs)
        if found is None or live is None or theirs is None:
            return found
        return self._sketches.without_errors(found, live, theirs)[0]

    def _as_live(self, row: ShownRow) -> ShownRow:
        """Return the row with the names of the promoted generation's job."""
        return ShownRow(
            {self._names[name]: value for name, value in row.values.items() if name in self._names},
            {self._columns[name]: value for name, value in row.partials.items() if name in self._columns},
        )


def _columns(live: Job, candidate: Job, kept: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of the candidate's partials with those of the promoted generation's."""
    theirs = {one.name: one for one in candidate.measures}
    return {
        two.column: one.column
        for measure in live.measures
        if measure.name in kept
        for one, two in zip(measure.partials, theirs[kept[measure.name]].partials, strict=True)
    }


def described(change: RowChange) -> DifferingRow:
    """Return the difference as a record has it."""
    name = change.name
    return DifferingRow(name.key, name.start_ms, name.end_ms, _text(change)[:TEXT_MAX])


def _text(change: RowChange) -> str:
    if change.kind is RowKind.ADDED:
        return f"only the candidate has it: {_values(change, after=True)}"
    if change.kind is RowKind.REMOVED:
        return f"the candidate has not: {_values(change, after=False)}"
    values = [f"{one.name} {_plain(one.before)} → {_plain(one.after)}" for one in change.measures]
    return ", ".join(values + [f"{one}: the same, of other partials" for one in change.hidden])


def _values(change: RowChange, after: bool) -> str:
    return ", ".join(f"{one.name} {_plain(one.after if after else one.before)}" for one in change.measures)


def _plain(value: Any) -> str:
    return "none" if value is None else str(value)
