"""The difference of two states, window by window and measure by measure.

Only measures of both jobs are compared, by name. A row differs if a compared measure has another value, or if its
partials are others although the value is the same: they decide what the next event makes of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from cutwater.core.checks.state_comparison import RowName
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.job.measures import Measure

Values = Mapping[str, Any]


class RowKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class MeasureChange(NamedTuple):
    """`before` and `after`: as users see the measure; None if it has no value, or the row is not there."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class RowChange:
    name: RowName
    kind: RowKind
    measures: tuple[MeasureChange, ...]
    """The measures with another value; of an added or removed row, all."""
    hidden: tuple[str, ...] = ()
    """Measures with the same value, but of other partials."""


class SharedMeasures(NamedTuple):
    """The names of two jobs' measures."""

    shared: tuple[str, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]

    @staticmethod
    def of(before: Job, after: Job) -> SharedMeasures:
        """Raises UsageError if no row of one can be compared with one of the other."""
        _require_comparable(before, after)
        one, two = ([measure.name for measure in job.measures] for job in (before, after))
        return SharedMeasures(
            tuple(name for name in one if name in two),
            tuple(name for name in one if name not in two),
            tuple(name for name in two if name not in one),
        )


def _require_comparable(before: Job, after: Job) -> None:
    window = [(job.window.size_ms, job.window.slide_ms) for job in (before, after)]
    if window[0] != window[1]:
        raise UsageError(f"the windows are of {window[0][0]} and {window[1][0]} ms: no window is in both states")
    keys = [[(one.name, one.kind) for one in job.key_parts] for job in (before, after)]
    if not before.attached and not after.attached and keys[0] != keys[1]:
        named = [", ".join(name for name, _ in one) or "none" for one in keys]
        raise UsageError(f"the keys are of {named[0]} and of {named[1]}: no row is in both states")


class ShownRow(NamedTuple):
    """A row as it is compared."""

    values: Values
    """By measure, as users see them."""
    partials: Values


class RowComparer:
    """Compares rows of two states. `tolerance`: relative, for floating-point numbers; 0: they must be equal."""

    def __init__(self, before: Job, after: Job, tolerance: float = 0.0) -> None:
        self.measures = SharedMeasures.of(before, after)
        self._tolerance = tolerance
        ours = {one.name: _columns(one) for one in before.measures}
        theirs = {one.name: _columns(one) for one in after.measures}
        self._columns = {name: ours[name] for name in self.measures.shared if ours[name] == theirs[name]}
        """The partials of each measure that are the same columns in both."""

    def change(self, name: RowName, before: ShownRow | None, after: ShownRow | None) -> RowChange | None:
        """Return how a row differs; None if it does not. One of both must be there."""
        if before is None or after is None:
            old, new = (row.values if row else {} for row in (before, after))
            kind = RowKind.ADDED if before is None else RowKind.REMOVED
            names = self.measures.shared
            return RowChange(name, kind, tuple(MeasureChange(one, old.get(one), new.get(one)) for one in names))
        changed, hidden = list[MeasureChange](), list[str]()
        for one in self.measures.shared:
            was, now = before.values.get(one), after.values.get(one)
            if not self._same(was, now):
                changed.append(MeasureChange(one, was, now))
            elif not self._same_partials(one, before.partials, after.partials):
                hidden.append(one)
        return RowChange(name, RowKind.CHANGED, tuple(changed), tuple(hidden)) if changed or hidden else None

    def _same_partials(self, measure: str, before: Values, after: Values) -> bool:
        return all(self._same(before.get(one), after.get(one)) for one in self._columns.get(measure, ()))

    def _same(self, one: Any, other: Any) -> bool:
        return same_values(one, other, self._tolerance)


def _columns(measure: Measure) -> tuple[str, ...]:
    """Return the columns of a measure's own partials; none of a derived value."""
    return tuple(one.column for one in measure.partials)


def same_values(one: Any, other: Any, tolerance: float) -> bool:
    """Return whether two values are the same; NaN is the same as NaN."""
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return one == other or both_nan or math.isclose(one, other, rel_tol=tolerance)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_values(one[key], other[key], tolerance) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_values, one, other, [tolerance] * len(one)))
    return bool(one == other)


@dataclass
class DifferenceSummary:
    """The first differences, and how many there are of each kind."""

    limit: int
    """The most differences that are kept."""
    first: list[RowChange] = field(default_factory=list)
    kinds: Counter[RowKind] = field(default_factory=Counter)
    measures: Counter[str] = field(default_factory=Counter)
    """By measure: the changed rows in which it has another value."""
    hidden: Counter[str] = field(default_factory=Counter)
    """By measure: the changed rows in which only its partials are others."""

    def add(self, change: RowChange) -> None:
        self.kinds[change.kind] += 1
        if change.kind is RowKind.CHANGED:
            self.measures.update(one.name for one in change.measures)
            self.hidden.update(change.hidden)
        if len(self.first) < self.limit:
            self.first.append(change)

    @property
    def rows(self) -> int:
        return self.kinds.total()


def summary_of(changes: Iterable[RowChange], limit: int) -> DifferenceSummary:
    """Return the summary. `changes`: however many, one after the other."""
    found = DifferenceSummary(limit)
    for one in changes:
        found.add(one)
    return found


def job_of_rows(fingerprints: Sequence[tuple[str, str, Job]], schema: str, definition: str) -> Job | None:
    """Return the job whose rows have this schema; of several, the one of this definition. None if none has.

    `fingerprints`: schema and definition of each job's rows. A definition alone may change what a row means, and
    not its form: its rows can still be compared.
    """
    known = [(own, job) for of, own, job in fingerprints if of == schema]
    exact = [job for own, job in known if own == definition]
    return next(iter(exact or [job for _, job in known]), None)
