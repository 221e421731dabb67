"""The global view: rows that regions aggregate each from events of their own, merged when they are read.

Each region tells of one *lineage*: the generations that went on from one another, of which the newest milestone
holds all that an earlier one held. So of a lineage one part counts, the newest, however often it is told; those of
different lineages merge as the measures say, and must be of different events: `core.query.event_overlap` knows
whether they are. What comes out depends neither on the order of the parts nor on their grouping: they are folded
by name.

A merged state has the highest of its parts' horizons. Below it some region has forgotten its rows, and what the
others still have would look like a whole: it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Generic, NamedTuple, TypeVar

from cutwater.core.errors import UsageError
from cutwater.core.job.measures import VALUE, Measure, Partials, merge
from cutwater.core.protocol.generation import ROOT_PARENT, Generation
from cutwater.core.protocol.lineage import Lineage

Place = TypeVar("Place", bound=Any)
"""Which row: a key and window in one form or another, in the order in which rows are read."""


@dataclass(frozen=True)
class Part(Generic[Place]):
    """What one lineage tells of its rows, at one milestone."""

    lineage: str
    """Its name: that of the region which tells of it."""
    at: tuple[int, int]
    """How new: the number of the generation, and the sequence."""
    horizon_ms: int
    """Windows that end at or below it are not told of."""
    rows: Mapping[Place, Partials] = field(default_factory=dict)
    told: Place | None = None
    """Rows behind this place may be missing; None: it tells of all."""


class Merged(NamedTuple, Generic[Place]):
    """Rows of all lineages together, in order."""

    rows: list[tuple[Place, dict[str, Any]]]
    told: Place | None
    """Rows behind this place may be missing; None: these are all."""
    horizon_ms: int
    """The highest of the parts': windows that end at or below it are left out."""


def newest(parts: Iterable[Part[Place]]) -> list[Part[Place]]:
    """One part of each lineage, by their names. Of one milestone, two parts are equal."""
    found: dict[str, Part[Place]] = {}
    for part in parts:
        known = found.get(part.lineage)
        if known is None or known.at < part.at:
            found[part.lineage] = part
    return [found[name] for name in sorted(found)]


def merged(
    measures: Sequence[Measure],
    parts: Iterable[Part[Place]],
    end_ms: Callable[[Place], int],
    limit: int | None = None,
) -> Merged[Place]:
    """The rows of all parts, at most `limit`, as far as every part tells of them. `end_ms`: of a place's window.

    Raises UsageError where a measure has no merge.
    """
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
    measures: Sequence[Measure], counted: Sequence[Part[Place]], end_ms: Callable[[Place], int]
) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The rows of parts, one of each lineage and by their names: in order, each merged when it is taken.

    Raises as `merged`.
    """
    require_mergeable(measures)
    horizon_ms = horizon_of(counted)
    for place in sorted({place for part in counted for place in part.rows}):
        if end_ms(place) > horizon_ms:
            first, *others = (part.rows[place] for part in counted if place in part.rows)
            yield place, reduce(partial(merged_row, measures), others, dict(first))


def horizon_of(parts: Iterable[Part[Place]]) -> int:
    """Of parts together: the highest of theirs."""
    return max((part.horizon_ms for part in parts), default=0)


def merged_row(measures: Sequence[Measure], one: Partials, other: Partials) -> dict[str, Any]:
    """The partials of one key and window over two disjoint sets of events."""
    return {name: value for measure in measures for name, value in merge(measure, one, other).items()}


def require_mergeable(measures: Iterable[Measure]) -> None:
    """Raises UsageError where a measure comes from a query of the user's own: its merge is not known."""
    for measure in measures:
        if measure.kind == VALUE:
            raise UsageError(
                f"column '{measure.name}' comes from a query of your own: how two regions' values of it merge is "
                "not known, so the job has no global view. It takes declared measures (docs/JOBFILE.md)"
            )


def root_of(generation: Generation, lineage: Lineage) -> Generation | None:
    """The first generation of the lineage that a generation belongs to; None where that is not known.

    `lineage`: the generations of its commit stream, as far as they are known. A generation that was started from
    another region's milestone holds that region's events, and its own stream does not say whose they are.
    """
    if generation.parent == ROOT_PARENT:
        return generation
    first = lineage.spans[0] if lineage.spans else None
    if first is None or first.generation.parent != ROOT_PARENT:
        return None
    return first.generation if any(span.generation == generation for span in lineage.spans) else None
