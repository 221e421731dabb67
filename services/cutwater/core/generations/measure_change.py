"""What becomes of each measure in a generation whose job differs from its parent's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from cutwater.core.job.job import Job
from cutwater.core.job.measures import STORED, Measure

_NOT_COUNTED = "a row that takes another event before has it only if its events are counted again, else none"


class Fate(StrEnum):
    CARRIED = "carried over"
    RENAMED = "renamed"
    PARTLY = "carried over in part"
    """A stored value: rows that take another event after the milestone may have none."""
    ADDED = "added"
    REPLACED = "replaced"
    """Added, and another measure of the same name is removed."""
    REMOVED = "removed"
    DERIVED = "derived"
    """Computed from other measures when it is shown: it has no state."""
    IN_STATE = "kept in state"
    """In Spark's state only, which no generation takes over: it counts the events after the milestone."""
    IMPOSSIBLE = "not possible"


class MeasureChange(NamedTuple):
    name: str
    fate: Fate
    before: str = ""
    """Its name in the parent's rows, if it is carried over, renamed, removed or now kept in state."""
    why: str = ""


def measure_changes(before: Job, after: Job, merges: bool) -> Iterator[MeasureChange]:
    """Yield what becomes of each measure: those of the new job in its order, then those that it does not have.

    `merges`: whether several rows of the parent become one.
    """
    known = {one.name: one for one in before.measures if one.partials}
    taken = {one.renamed_from for one in after.measures if one.renamed_from in known}
    changes = [_measure(one, known, taken, merges) for one in after.measures]
    yield from changes
    in_state = [one.name for one in after.state_measures]
    yield from (MeasureChange(name, Fate.IN_STATE, name if name in known else "") for name in in_state)
    left = {one.before for one in changes} | {one.name for one in changes if one.fate is Fate.REPLACED}
    yield from (MeasureChange(name, Fate.REMOVED, name) for name in known if name not in {*left, *in_state})


def _measure(one: Measure, known: Mapping[str, Measure], taken: Collection[str], merges: bool) -> MeasureChange:
    """`taken`: the names of the parent's measures that are renamed."""
    if not one.partials:
        return MeasureChange(one.name, Fate.DERIVED)
    source = known.get(one.renamed_from) or known.get(one.name)
    if source is None:
        return _unknown(one, known)
    if unlike := _unlike(source, one):
        return _replaced(one, source, unlike, taken)
    if one.kind == STORED:
        return _stored(one, source, merges)
    if merges and any(partial.one_seed for partial in one.partials):
        return _no(one, f"rows of a {one.kind} cannot be merged here: remove it, and add it under another name")
    return MeasureChange(one.name, Fate.RENAMED if source.name != one.name else Fate.CARRIED, source.name)


def _unknown(one: Measure, known: Mapping[str, Measure]) -> MeasureChange:
    if not one.renamed_from:
        return MeasureChange(one.name, Fate.ADDED)
    names = ", ".join(known)
    return _no(one, f"renamed_from: '{one.renamed_from}' is no measure of the parent, which has {names}")


def _replaced(one: Measure, source: Measure, unlike: str, taken: Collection[str]) -> MeasureChange:
    if source.name == one.renamed_from:
        return _no(one, f"'{source.name}' {unlike}: leave renamed_from out, and it starts empty")
    if one.name in taken:  # the parent's measure of this name continues under another
        return MeasureChange(one.name, Fate.ADDED)
    return MeasureChange(one.name, Fate.REPLACED, why=f"it {unlike}, so the parent's values are no part of it")


def _stored(one: Measure, source: Measure, merges: bool) -> MeasureChange:
    if merges:
        return MeasureChange(one.name, Fate.REPLACED, why="rows are merged, and nobody can merge its values")
    return MeasureChange(one.name, Fate.PARTLY, source.name, _NOT_COUNTED)


def _no(one: Measure, why: str) -> MeasureChange:
    return MeasureChange(one.name, Fate.IMPOSSIBLE, why=why)


def _unlike(source: Measure, one: Measure) -> str:
    """Return in what a parent's measure differs, so that its values are not those of the other; empty if not."""
    if source.kind != one.kind:
        return f"was a {source.kind} and is a {one.kind}"
    if [part.meaning for part in source.partials] != [part.meaning for part in one.partials]:
        of = f" ({source.field} before)" if source.field != one.field else ""
        return f"is computed from something else{of}"
    if [_plain(part.avro) for part in source.partials] != [_plain(part.avro) for part in one.partials]:
        return "has another type"
    return ""


def _plain(avro: Any) -> Any:
    """Return an Avro type without the names of its records, which contain the measure's name."""
    if isinstance(avro, dict):
        own = ("name",) if avro.get("type") == "record" else ()
        return {name: _plain(of) for name, of in avro.items() if name not in own}
    return [_plain(one) for one in avro] if isinstance(avro, list) else avro
