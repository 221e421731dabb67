"""What generations of one job may compute: job files that differ as `cutwater generation start --job-file` allows.

Each is a real job file, which travels with a claim and is read by the services' own loader. Beside it stands what
it means in plain Python, written without a look at the code that it is held against.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import gcd
from typing import Any, NamedTuple
from unittest.mock import patch

from cutwater.adapters.job_files import carried_files
from cutwater.core.job.job import Job
from cutwater.core.protocol.records import FileText
from cutwater_spark.seed import parent
from simulation.job import HOUR_MS, JOB, PARTITIONS

GROUPS = {"ash": "low", "elm": "low", "oak": "high", "yew": "high"}
"""The coarser key of each."""
MINUTE_MS = 60_000
Pane = tuple[str, int, int]
"""(key, start, end)."""
Values = dict[str, int | None]
State = dict[Pane, Values]
KINDS: Mapping[str, Callable[[int, int], int]] = {
    "sum": lambda one, other: one + other,
    "count": lambda one, other: one + other,
    "max": max,
    "min": min,
}
_SCHEMA = {
    "type": "record",
    "name": "Planted",
    "fields": [
        {"name": "grove", "type": "string"},
        {"name": "tree", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": "int"},
    ],
}


class Counted(NamedTuple):
    """A measure: its name, and of what it is."""

    name: str
    kind: str
    before: str = ""
    """The name that it had, if it has another one now."""


@dataclass(frozen=True)
class Definition:
    """What a job file says."""

    measures: tuple[Counted, ...]
    final: bool = False
    coarse: bool = False
    size_h: int = 1
    slide_h: int = 1
    above: int = 0
    """Events of a smaller amount do not count."""
    lateness_min: int = 60

    @cached_property
    def files(self) -> tuple[FileText, ...]:
        """The job file and its schema."""
        return FileText("trees.yaml", json.dumps(self._document)), FileText("trees.avsc", json.dumps(_SCHEMA))

    @cached_property
    def job(self) -> Job:
        return load_once(self.files)

    @property
    def _document(self) -> dict[str, Any]:
        where = {"where": f"amount > {self.above}"} if self.above else {}
        tumbling = self.size_h == self.slide_h
        slide = {} if tumbling else {"slide": f"{self.slide_h}h"}
        return {
            "job": JOB.name,
            "source": {
                "topic": JOB.topic,
                "schema": "trees.avsc",
                "key": "grove" if self.coarse else ["grove", "tree"],
                "event_time": "at",
                **where,
            },
            "window": {"kind": "tumbling" if tumbling else "sliding", "size": f"{self.size_h}h", **slide},
            "lateness": f"{self.lateness_min}m",
            "retention": "3h",
            "max_ahead": "1h",
            "shards": JOB.shards.shards,
            "partitions": PARTITIONS,
            "max_events_per_epoch": JOB.max_events_per_epoch,
            "shuffle_partitions": 1,
            "output": {"mode": "final" if self.final else "updates"},
            "measures": {one.name: self._measure(one) for one in self.measures},
        }

    def _measure(self, one: Counted) -> dict[str, str]:
        field = {} if one.kind == "count" else {"field": "amount"}
        return {"measure": one.kind, **field, **({"renamed_from": one.before} if one.before else {})}

    # --- what it means

    @property
    def size_ms(self) -> int:
        return self.size_h * HOUR_MS

    @property
    def pane_ms(self) -> int:
        """The length of a row: each window is of whole ones."""
        return gcd(self.size_h, self.slide_h) * HOUR_MS

    @property
    def overlaps(self) -> bool:
        return self.size_h != self.slide_h

    def key_of(self, tree: str) -> str:
        grove = GROUPS[tree]
        return grove if self.coarse else json.dumps([grove, tree], separators=(",", ":"))

    def pane_of(self, key: str, at_ms: int) -> Pane:
        start_ms = at_ms - at_ms % self.pane_ms
        return key, start_ms, start_ms + self.pane_ms

    def counts(self, amount: int) -> bool:
        return amount > self.above

    def add(self, state: State, events: Iterable[Any]) -> list[Pane]:
        """Count events in a state of panes. Returns the panes that they changed, each once."""
        changed: dict[Pane, None] = {}
        for one in events:
            if self.counts(one.amount):
                pane = self.pane_of(self.key_of(one.key), one.at_ms)
                of = {at.name: 1 if at.kind == "count" else one.amount for at in self.measures}
                state[pane] = self.merged(state.get(pane), of)
                changed[pane] = None
        return list(changed)

    def merged(self, one: Values | None, other: Values) -> Values:
        """Both in one; a value that is None is of no event."""
        return {at.name: _both(at.kind, (one or {}).get(at.name), other.get(at.name)) for at in self.measures}

    def shown(self, values: Values) -> Values:
        """As readers see it: of no event a count is 0, and everything else is null."""
        return {
            at.name: values.get(at.name) or 0 if at.kind == "count" else values[at.name] for at in self.measures
        }

    def taken_over(self, parent: Definition, rows: State) -> State:
        """What a generation has of its parent's rows, before it reads an event."""
        names = dict(self.names_in(parent))
        found: State = {}
        for (key, start_ms, _), values in rows.items():
            pane = self.pane_of(self._key_from(key, parent), start_ms)
            taken = {one.name: values[names[one.name]] if names[one.name] else None for one in self.measures}
            found[pane] = self.merged(found.get(pane), taken)
        return found

    def _key_from(self, key: str, parent: Definition) -> str:
        return json.loads(key)[0] if self.coarse and not parent.coarse else key

    def names_in(self, other: Definition, back: bool = False) -> Iterator[tuple[str, str]]:
        """Each measure with the name that the other one has for it, or with none. `back`: of any two generations,
        between which the sum may have been renamed more than once."""
        known = {one.name: one for one in other.measures}
        sums = [one for one in other.measures if one.kind == "sum"] if back else []
        for one in self.measures:
            found = sums[0] if sums and one.kind == "sum" else known.get(one.before) or known.get(one.name)
            yield one.name, found.name if found and found.kind == one.kind else ""

    def windows(self, panes: State) -> State:
        """Windows that are merges of panes."""
        if not self.overlaps:
            return panes
        found: State = {}
        for (key, start_ms, end_ms), values in panes.items():
            for at_ms in self.starts(start_ms, end_ms):
                window = key, at_ms, at_ms + self.size_ms
                found[window] = self.merged(found.get(window), values)
        return found

    def starts(self, start_ms: int, end_ms: int) -> Iterable[int]:
        """When the windows begin that hold a pane."""
        slide_ms = self.slide_h * HOUR_MS
        first_ms = end_ms - self.size_ms
        return range(first_ms + -first_ms % slide_ms, start_ms + 1, slide_ms)

    # --- others

    def other(self, luck: int) -> Definition:
        """One that differs from this one, in one or two ways that a claim may carry."""
        found = CHANGES[luck % len(CHANGES)](self)
        if luck >> 8 & 1:
            found = CHANGES[(luck >> 9) % len(CHANGES)](found)
        return found

    def _with(self, *more: Counted, without: str = "") -> Definition:
        kept = tuple(one for one in self.measures if one.name != without)
        return replace(self, measures=(*kept, *more))

    def has(self, name: str) -> bool:
        return any(one.name == name for one in self.measures)

    def toggled(self, name: str, kind: str) -> Definition:
        """A measure more, or one less."""
        return self._with(without=name) if self.has(name) else self._with(Counted(name, kind))

    def renamed(self) -> Definition:
        """The sum has another name. A job file that keeps the line `renamed_from` goes on meaning the same."""
        old = next(one for one in self.measures if one.kind == "sum")
        new = {"total": "whole", "whole": "mass"}.get(old.name)
        return self._with(Counted(new, "sum", old.name), without=old.name) if new else self

    def replaced(self) -> Definition:
        """A measure of the same name and another kind."""
        kind = next((one.kind for one in self.measures if one.name == "most"), "min")
        return self._with(Counted("most", "min" if kind == "max" else "max"), without="most")

    def larger(self) -> Definition:
        """Rows, and with them windows, that are twice as long."""
        if self.size_h >= 4:
            return self
        return replace(self, size_h=2 * self.size_h, slide_h=2 * self.slide_h)

    def overlapping(self) -> Definition:
        """Windows of the same rows that begin more often, or no longer do."""
        if self.overlaps:
            return replace(self, size_h=self.pane_ms // HOUR_MS, slide_h=self.pane_ms // HOUR_MS)
        return replace(self, size_h=2 * self.size_h)


CHANGES: tuple[Callable[[Definition], Definition], ...] = (
    lambda one: one.toggled("most", "max"),
    lambda one: one.toggled("trees", "count"),
    lambda one: one.renamed(),
    lambda one: one.replaced(),
    lambda one: replace(one, above=0 if one.above else 3),
    lambda one: replace(one, coarse=True),
    lambda one: one.larger(),
    lambda one: one.overlapping(),
    lambda one: replace(one, lateness_min=90 if one.lateness_min == 60 else 60),
)


def first_definition(sliding: bool, final: bool) -> Definition:
    """That of a job's first generation."""
    size_h = 3 if sliding else 1
    return Definition((Counted("total", "sum"), Counted("trees", "count")), final, size_h=size_h)


def _both(kind: str, one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return KINDS[kind](one, other)


load_once = lru_cache(maxsize=1_000)(carried_files.load_carried)
"""A history asks for the same job files again and again."""


@contextmanager
def loaded_once() -> Iterator[None]:
    """Inside, each job file that travels with a claim is read once."""
    with patch.object(carried_files, "load_carried", load_once), patch.object(parent, "load_carried", load_once):
        yield
