"""Why a replayed row differs from the job's, as far as it can be told.

Sketches depend on the order of events, within their error. Values within it are no difference, but are counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cutwater.core.checks.state_comparison import RowName
from cutwater.core.job.kinds.frequent_items import TOP
from cutwater.core.job.kinds.quantiles import of_equal_values
from cutwater.core.job.measures import HLL_LG_K, THETA, Measure
from cutwater.core.past.state_difference import DifferenceSummary, RowChange, ShownRow

HLL_ERROR: float = 3 * 1.04 / (1 << HLL_LG_K) ** 0.5
"""Of two estimates of the same values, relative: three standard errors."""


class Reason(StrEnum):
    LATE = "late"
    """Events of the window are on the job's list of late events, and the replay has counted them."""
    JOB_FILE = "job_file"
    """The replay counted by another job file."""
    UNKNOWN = "unknown"
    """The same events and the same job file made another row."""


@dataclass
class ReplaySummary:
    """The differences of a replay, with their reasons."""

    differences: DifferenceSummary
    reasons: Counter[Reason] = field(default_factory=Counter)
    first: list[Reason] = field(default_factory=list)
    """Of the differences that are kept."""
    within_error: Counter[str] = field(default_factory=Counter)
    """By measure: rows whose sketch has another value within its error. They are no differences."""

    def add(self, change: RowChange, reason: Reason) -> None:
        self.differences.add(change)
        self.reasons[reason] += 1
        if len(self.first) < len(self.differences.first):
            self.first.append(reason)


class LateWindows:
    """The rows to which late events belong. `names`: their keys, starts and ends; of sliding windows of panes."""

    def __init__(self, names: Iterable[tuple[str, int, int]]) -> None:
        found: dict[str, set[tuple[int, int]]] = defaultdict(set)
        for key, start_ms, end_ms in names:
            found[key].add((start_ms, end_ms))
        self._of = {key: sorted(rows) for key, rows in found.items()}

    def touches(self, window: RowName) -> bool:
        """Return whether a late event belongs to the window."""
        rows = self._of.get(window.key, [])
        at = bisect_left(rows, (window.start_ms, window.start_ms))
        return at < len(rows) and rows[at][1] <= window.end_ms


class Explainer:
    """Tells the reason of a difference. `measures`: those of one form in both jobs. `another`: whether the replay
    counted by another job file."""

    def __init__(self, measures: Iterable[Measure], late: LateWindows, another: bool) -> None:
        self._sketches = {one.name: close for one in measures if (close := _closeness(one))}
        self._late, self._another = late, another

    def without_errors(
        self, change: RowChange, live: ShownRow, replayed: ShownRow
    ) -> tuple[RowChange | None, list[str]]:
        """Return what is left of a changed row without the errors of sketches, and the measures with another value
        within its error."""
        close = {
            name
            for name in (*(one.name for one in change.measures), *change.hidden)
            if name in self._sketches and self._is_close(name, live, replayed)
        }
        measures = tuple(one for one in change.measures if one.name not in close)
        hidden = tuple(one for one in change.hidden if one not in close)
        errors = [one.name for one in change.measures if one.name in close]
        if not measures and not hidden:
            return None, errors
        return RowChange(change.name, change.kind, measures, hidden), errors

    def _is_close(self, name: str, live: ShownRow, replayed: ShownRow) -> bool:
        values = live.values.get(name), replayed.values.get(name)
        if None in values:
            return bool(values[0] == values[1])
        return self._sketches[name](live, replayed)

    def reason(self, change: RowChange) -> Reason:
        if self._late.touches(change.name):
            return Reason.LATE
        return Reason.JOB_FILE if self._another else Reason.UNKNOWN


def _closeness(measure: Measure) -> Callable[[ShownRow, ShownRow], bool] | None:
    """Return what tells whether two rows have the same sketch, but for its error; None if it is none."""
    name = measure.name
    if measure.kind == TOP:
        return lambda one, other: counts_overlap(one.partials[name], other.partials[name])
    if measure.kind == "quantile":
        return lambda one, other: of_equal_values(one.partials[name], other.partials[name])
    if measure.kind == "distinct" and measure.sketch != THETA:
        return lambda one, other: estimates_agree(one.values[name], other.values[name])
    return None


def estimates_agree(one: int, other: int) -> bool:
    return abs(one - other) <= 1 + HLL_ERROR * max(one, other)


def counts_overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether the true counts of all values can be equal: each is from the count to the error above it."""
    mine, theirs = ({item["value"]: item["count"] for item in of["values"]} for of in (one, other))
    for value in mine.keys() | theirs.keys():
        least = mine.get(value, 0), theirs.get(value, 0)
        if least[0] > least[1] + other["error"] or least[1] > least[0] + one["error"]:
            return False
    return bool(one["error"] or other["error"])
