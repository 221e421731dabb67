"""How a generation's job may differ from its parent's: what is carried over, what starts empty, what cannot be.

Theory of operation. A generation starts from the rows of its parent at a milestone, and reads the events after it.
So a measure of both jobs is carried over, row by row. One that the parent did not have starts empty: it lacks the
events below the milestone's source cut. These all lie before the end of the parent's newest row. So the windows
that start there or later are complete, which is the *window X* of a change. What decides which events count, such
as a filter, holds for the events after the cut: rows below window X are in part by the old one.

A stored value (of measures that are kept in state) is carried over in part: the parent's rows have the value, and
not what it was computed from. A row that takes no event after the milestone keeps it. One that does has none,
unless its events are counted again (`recount`). So these values, too, are complete from window X on.

A coarser key and a larger pane are merges: each row of the parent has one place in the new state, and the rows of
one place are merged by the query itself, which takes any number of seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.generations.measure_change import Fate, MeasureChange, measure_changes
from cutwater.core.generations.seed_change import SeedChange
from cutwater.core.job.columns import Transform
from cutwater.core.job.job import Job
from cutwater.core.job.measures import STORED
from cutwater.core.protocol.records import Milestone

_KEEPS_ROWS = frozenset({Fate.CARRIED, Fate.PARTLY, Fate.DERIVED})
_NOT_SHOWN = frozenset({Fate.REMOVED, Fate.IN_STATE})


class PartChange(NamedTuple):
    """A part of the job file that differs."""

    part: str
    before: str
    after: str
    effect: str
    """What that means for the rows; why it is not possible."""
    possible: bool = True
    from_x: bool = False
    """Whether only windows from X on are complete by the new part."""


@dataclass(frozen=True)
class JobChange:
    """What differs between the jobs of a parent and of its generation."""

    measures: tuple[MeasureChange, ...]
    parts: tuple[PartChange, ...]
    seeds: SeedChange
    """How the parent's rows become seeds. Only of a change that is possible."""

    @property
    def obstacles(self) -> list[str]:
        """Why it is not possible; empty if it is."""
        measures = [f"measure '{one.name}': {one.why}" for one in self.measures if one.fate is Fate.IMPOSSIBLE]
        return measures + [f"{one.part}: {one.effect}" for one in self.parts if not one.possible]

    @property
    def has_new(self) -> bool:
        """Whether something is complete only from window X on."""
        added = any(one.fate in (Fate.ADDED, Fate.REPLACED, Fate.PARTLY) for one in self.measures)
        return added or any(one.from_x for one in self.parts)

    @property
    def changes_rows(self) -> bool:
        """Whether the rows differ, and not only how long they are kept or which events can be read."""
        kept = all(
            one.fate in _KEEPS_ROWS or (one.fate is Fate.IN_STATE and not one.before) for one in self.measures
        )
        return not kept or self.seeds.merges or any(one.from_x for one in self.parts)

    def require_possible(self) -> None:
        """Raise UsageError with each obstacle if it is not possible."""
        if self.obstacles:
            raise UsageError(f"a generation cannot differ so: {'; '.join(self.obstacles)}")


def compare_jobs(before: Job, after: Job) -> JobChange:
    """Return what differs. `before`: the job of the parent's rows; `after`: that of the generation."""
    places = _key_places(before, after)
    pane_ms = after.row_windows.size_ms
    merges = places is not None or pane_ms != before.row_windows.size_ms
    measures = tuple(measure_changes(before, after, merges))
    seeds = SeedChange(
        columns=tuple(_columns(before, after, measures)),
        key=places,
        from_list=before.key_columns is not None,
        to_list=after.key_columns is not None,
        from_pane_ms=before.row_windows.size_ms,
        pane_ms=pane_ms,
    )
    return JobChange(measures, tuple(_parts(before, after)), seeds)


def shown_from(row: Job, reader: Job) -> dict[str, str | None]:
    """Return for each measure of a reader's job file its name in a row of another job; None if that row does not
    have it."""
    fates = compare_jobs(row, reader).measures
    names = {one.name: one.before or None for one in fates if one.fate not in _NOT_SHOWN}
    back = {one.before: one.name for one in compare_jobs(reader, row).measures if one.fate is Fate.RENAMED}
    derived, stored = ({one.name for one in of} for of in (row.derived_values, row.stored_values))
    for one in reader.measures:
        # What a derived value means may change, and so may who computes it.
        same = derived | stored if not one.partials else derived if one.kind == STORED else set[str]()
        if one.name in same:
            names[one.name] = one.name
        names[one.name] = names[one.name] or back.get(one.name)
    return names


def complete_from_ms(change: JobChange, before: Job, after: Job, parent: Milestone, newest_row_end_ms: int) -> int:
    """Return window X: the start of the first window that is complete in everything new; 0 if nothing is new.

    `newest_row_end_ms`: the end of the parent's newest row. Each counted event is in a row. An event that a filter
    left out is in none; its event time is bounded by `max_ahead` only, as that of every event.
    """
    if not change.has_new:
        return 0
    bound_ms = newest_row_end_ms
    if (before.where or before.explode) and any(one.from_x for one in change.parts):
        bound_ms = max(bound_ms, parent.written_ms + before.max_ahead_ms + 1)
    slide_ms = after.window.slide_ms
    return -(-bound_ms // slide_ms) * slide_ms


def _columns(before: Job, after: Job, measures: tuple[MeasureChange, ...]) -> Iterator[tuple[str, str | None]]:
    """Yield the columns of the new state, each with that of the parent's state; None if it starts empty."""
    known = {one.name: one for one in before.measures}
    for one, change in zip(after.measures, measures, strict=False):
        kept = known[change.before].partials if change.before else (None,) * len(one.partials)
        for partial, source in zip(one.partials, kept, strict=True):
            yield partial.column, source.column if source else None


def _key_places(before: Job, after: Job) -> tuple[int, ...] | None:
    """Return the places of the new key's columns in the parent's key; None if the key stays, or cannot be made."""
    if _key(before) == _key(after) or _key_obstacle(before, after):
        return None
    names = before.key_fields
    return tuple(names.index(one.name) for one in after.key_parts)


def _key(job: Job) -> Any:
    return job.key_columns, job.key_parts


def _key_obstacle(before: Job, after: Job) -> str:
    """Return why the parent's keys do not tell the new ones; empty if they do."""
    known = {one.name: one for one in before.key_parts}
    for one in after.key_parts:
        had = known.get(one.name)
        if had is None:
            return f"'{one.name}' is no part of the parent's key, so its rows do not tell it"
        if had.kind != one.kind:
            return f"'{one.name}' was a {had.kind} and is a {one.kind}"
        if had.nullable and (not one.nullable or after.key_columns is None):
            return f"'{one.name}' may be null in the parent's rows, which would have no key"
    return ""


def _parts(before: Job, after: Job) -> Iterator[PartChange]:
    yield from _fixed_parts(before, after)
    if _key(before) != _key(after):
        why = _key_obstacle(before, after)
        merged = why or "the parent's rows are merged by the columns that stay"
        yield PartChange("key", _key_of(before), _key_of(after), merged, not why)
    if before.window != after.window:
        yield _window(before, after)
    yield from _counted_parts(before, after)
    yield from _settings(before, after)


def _fixed_parts(before: Job, after: Job) -> Iterator[PartChange]:
    """Yield the differences that no generation may have."""
    fixed = {
        "job": (before.name, after.name, "a generation is one of the same job"),
        "source.topic": (before.topic, after.topic, "a generation keeps its parent's sources"),
        "source.job": (before.upstream, after.upstream, "a generation keeps its parent's sources"),
        "source.event_time": (before.time_field, after.time_field, "the parent's rows are of windows by the old"),
        "shards": (before.shards.shards, after.shards.shards, "a key's shard never changes"),
        "output": (before.output.form, after.output.form, "the output's readers rely on its mode and format"),
        "source.transform": (_function(before), _function(after), "a function does not travel with a claim"),
    }
    for part, (old, new, why) in fixed.items():
        if old != new:
            yield PartChange(part, str(old), str(new), f"{why}: start a new job", possible=False)
    if (before.attached or after.attached) and before.meaning != after.meaning:
        yield PartChange("attached", "", "", "the query is your own program, not the job file", possible=False)


def _function(job: Job) -> str:
    made: Transform | None = job.transform
    return f"{made.function} {sorted(made.contents)}" if made else ""


def _window(before: Job, after: Job) -> PartChange:
    old_ms, new_ms = before.row_windows.size_ms, after.row_windows.size_ms
    was, now = (f"{one.window.size_ms} ms every {one.window.slide_ms} ms" for one in (before, after))
    if old_ms == new_ms:
        return PartChange("window", was, now, "its rows, the panes, stay the same")
    if new_ms % old_ms == 0:
        return PartChange("window", was, now, f"panes of {old_ms} ms are merged to panes of {new_ms} ms")
    why = f"rows of {old_ms} ms cannot be divided into rows of {new_ms} ms"
    return PartChange("window", was, now, why, possible=False)


def _counted_parts(before: Job, after: Job) -> Iterator[PartChange]:
    """Yield the differences in which events count, and with which values."""
    parts = {
        "source.where": (before.where, after.where),
        "source.columns": (_sql(before), _sql(after)),
        "source.explode": (_exploded(before), _exploded(after)),
    }
    for part, (old, new) in parts.items():
        if old != new:
            effect = "holds for the events after the milestone: windows before X are in part by the old one"
            yield PartChange(part, old, new, effect, from_x=True)


def _sql(job: Job) -> str:
    return "; ".join(f"{one.name}: {one.sql} as {one.type}" for one in job.columns)


def _exploded(job: Job) -> str:
    one = job.explode
    if one is None:
        return ""
    of = "; ".join(f"{column.name}: {column.sql} as {column.type}" for column in one.columns)
    return f"{one.array} as {one.item} where {one.where or 'all'} ({of})"


def _settings(before: Job, after: Job) -> Iterator[PartChange]:
    """Yield the differences that leave the rows as they are."""
    longer = after.retention_ms > before.retention_ms
    kept = "windows that have left the state do not come back" if longer else "older windows leave the state"
    schema = "events after the milestone are read with the new one; rejected ones stay dead letters"
    parts = {
        "lateness": (before.lateness_ms, after.lateness_ms, "what the parent has closed stays closed"),
        "retention": (before.retention_ms, after.retention_ms, kept),
        "late.amend_for": (before.amend_for_ms, after.amend_for_ms, "what the parent has closed stays closed"),
        "source.schema": (_fields(before), _fields(after), schema),
        "source.format": (before.format.kind, after.format.kind, schema),
    }
    for part, (old, new, effect) in parts.items():
        if old != new:
            ms = part in ("lateness", "retention", "late.amend_for")
            yield PartChange(part, _text(old, ms), _text(new, ms), effect)


def _text(value: Any, ms: bool) -> str:
    return "none" if value is None else f"{value} ms" if ms else str(value)


def _fields(job: Job) -> str:
    return ", ".join(f"{one['name']}: {one['type']}" for one in job.event_schema.get("fields", ()))


def _key_of(job: Job) -> str:
    names = ", ".join(job.key_fields)
    return f"[{names}]" if job.key_columns is not None else names
