"""The global view: rows that regions aggregate from their own events, merged when they are read.

Each region answers for one *lineage*: generations that continued one another, so that the newest milestone
includes all earlier ones and only the newest part of a lineage counts. Parts of different lineages are merged by
the measures and must be of different events (checked by `core.query.event_overlap`). The result does not depend on
the order or grouping of the parts, as they are folded by name.

A merged state has the highest of its parts' horizons. Windows below it are left out, since some region has dropped
its rows and the others' rows would look complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Generic, NamedTuple, TypeVar

from cutwater.core.errors import UsageError
from cutwater.core.job.measures import VALUE, Measure, Partials, merged_row
from cutwater.core.protocol.generation import ROOT_PARENT, Generation
from cutwater.core.protocol.lineage import Lineage

Place = TypeVar("Place", bound=Any)
"""A row's key and window in any form that sorts in reading order."""


@dataclass(frozen=True)
class LineageRows(Generic[Place]):
    """The rows of one lineage at one milestone."""

    lineage: str
    """The name of the region that answers for it."""
    at: tuple[int, int]
    """Its age: generation number and sequence."""
    horizon_ms: int
    """Windows that end at or below it are not included."""
    rows: Mapping[Place, Partials] = field(default_factory=dict)
    told: Place | None = None
    """Rows after this place may be missing; None: all rows are included."""


class Merged(NamedTuple, Generic[Place]):
    """Rows of all lineages together, in order."""

    rows: list[tuple[Place, dict[str, Any]]]
    told: Place | None
    """Rows after this place may be missing; None: these are all."""
    horizon_ms: int
    """The highest horizon of the parts: windows that end at or below it are left out."""


def newest(parts: Iterable[LineageRows[Place]]) -> list[LineageRows[Place]]:
    """Return the newest part of each lineage, sorted by name; parts of the same milestone are equal."""
    found: dict[str, LineageRows[Place]] = {}
    for part in parts:
        known = found.get(part.lineage)
        if known is None or known.at < part.at:
            found[part.lineage] = part
    return [found[name] for name in sorted(found)]


def merged(
    measures: Sequence[Measure],
    parts: Iterable[LineageRows[Place]],
    end_ms: Callable[[Place], int],
    limit: int | None = None,
) -> Merged[Place]:
    """Return at most `limit` merged rows, up to where every part is complete. `end_ms`: returns a window's end.
    Raises UsageError if a measure has no merge."""
    counted = newest(parts)
    told = min((part.told for part in counted if part.told is not None), default=None)
    rows: list[tuple[Place, dict[str, Any]]] = []
    for place, partials in each(measures, counted, end_ms):
        if told is not None and place > told:
            break
        if len(rows) == limit:
            return Merged(rows, rows[-1][0], horizon_of(counted))
        rows.append((place, partials))
    return Merged(rows, told, horizon_of(counted))


def each(
    measures: Sequence[Measure], counted: Sequence[LineageRows[Place]], end_ms: Callable[[Place], int]
) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the merged rows in order; raises as `merged`. `counted`: one part of each lineage, sorted by name."""
    require_mergeable(measures)
    horizon_ms = horizon_of(counted)
    for place in sorted({place for part in counted for place in part.rows}):
        if end_ms(place) > horizon_ms:
            first, *others = (part.rows[place] for part in counted if place in part.rows)
            yield place, reduce(partial(merged_row, measures), others, dict(first))


def horizon_of(parts: Iterable[LineageRows[Place]]) -> int:
    """Return the highest horizon of the parts."""
    return max((part.horizon_ms for part in parts), default=0)


def require_mergeable(measures: Iterable[Measure]) -> None:
    """Raise UsageError if a measure comes from the user's own query: there is no known way to merge it."""
    for measure in measures:
        if measure.kind == VALUE:
            raise UsageError(
                f"column '{measure.name}' comes from a query of your own: there is no known way to merge two "
                "regions' values of it, so the job has no global view. Use declared measures (docs/JOBFILE.md)"
            )


def root_of(generation: Generation, lineage: Lineage) -> Generation | None:
    """Return the first generation of the lineage that a generation belongs to; None if unknown.

    `lineage`: the known generations of its commit stream. A generation started from another region's milestone
    holds that region's events, which its own stream does not show.
    """
    if generation.parent == ROOT_PARENT:
        return generation
    first = lineage.spans[0] if lineage.spans else None
    if first is None or first.generation.parent != ROOT_PARENT:
        return None
    return first.generation if any(span.generation == generation for span in lineage.spans) else None
