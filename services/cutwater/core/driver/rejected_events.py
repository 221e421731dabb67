"""Entries of the lists of dead letters and late events, and which of them the milestones of the lineage cover.

A list is not transactional. A killed attempt may have listed events of an epoch that a later attempt listed again
or, under another job file, did not reject. So an entry counts if its attempt won the epoch's milestone. If a
zombie's equal entry has overwritten the winner's, it counts instead: the milestone has the expected number. Each
generation writes its own entries; `cutwater.core.driver.rejected_events_by_lineage` selects the epochs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from cutwater.core.protocol.generation import Generation

T = TypeVar("T")

FIELD_HEADER, RULE_HEADER = "flaw-field", "flaw-rule"
"""Headers of a dead letter's record: the invalid field, if any, and the rule that it violates."""
HEAD_BYTES = 200
"""Number of bytes shown of a rejected event."""


class EventPosition(NamedTuple):
    """The position of an event, or of its replay."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class Listed(NamedTuple):
    """The writer of an entry."""

    generation: Generation
    attempt: int
    epoch: int


@dataclass(frozen=True)
class Letter:
    """A dead letter, without its bytes."""

    event: EventPosition
    by: Listed
    reason: str
    key: bytes | None
    value_bytes: int | None
    """The size of the event's value; None if it has none."""
    written_ms: int
    """The timestamp of the event's record as its producer set it; may be in any year."""
    replayed: EventPosition | None
    at: tuple[int, int]
    """(partition, offset) on the dead-letter topic."""
    field: str | None = None
    """The invalid field; None if the whole record is invalid, or an older version wrote the entry."""
    rule: str | None = None
    """The violated rule in words; None if an older version wrote the entry."""
    head: bytes | None = None
    """The first bytes of the event's value; None without a value, and if payloads must not be shown."""

    def without_payload(self) -> Letter:
        """Return the letter without anything of the event's value. The path of a flaw may have names of a map."""
        path, key, _ = (self.field or "").partition("['")
        return replace(self, head=None, field=f"{path}['…']" if key else self.field)


@dataclass(frozen=True)
class LatePair:
    """An event that arrived too late for one window."""

    event: EventPosition
    by: Listed
    key: str
    window_start_ms: int
    window_end_ms: int
    event_time_ms: int
    watermark_ms: int


class EpochAccount(NamedTuple):
    """The winning attempt of an epoch and its number of listed entries, from the milestone."""

    attempt: int
    entries: int


Epoch = tuple[Generation, int]


@dataclass(frozen=True)
class Choice(Generic[T]):
    """The entries that count, in the given order, and the list's problems."""

    entries: list[T]
    problems: list[str]
    elsewhere: list[str] = field(default_factory=list)
    """Entries that are not expected on this list: on lists of other regions, or deleted by retention."""


def choose(
    entries: Iterable[tuple[Listed, T]], told: Mapping[Epoch, EpochAccount], forgetful: bool = False
) -> Choice[T]:
    """Return the entries of `told`'s epochs that count; other epochs are not, or not yet, part of the lineage.

    `forgetful`: the list's retention has deleted old entries, so fewer than the milestones count are no problem.
    """
    by_epoch: dict[Epoch, list[tuple[int, int, T]]] = defaultdict(list)
    for place, (by, entry) in enumerate(entries):
        if (by.generation, by.epoch) in told:
            by_epoch[by.generation, by.epoch].append((place, by.attempt, entry))
    kept: list[tuple[int, T]] = []
    problems, deleted = [], 0
    for epoch, one in told.items():
        found = by_epoch.get(epoch, [])
        own = [(place, entry) for place, attempt, entry in found if attempt == one.attempt]
        every = [(place, entry) for place, _, entry in found]
        chosen = every if len(own) < one.entries == len(every) else own
        kept += chosen
        if forgetful and len(chosen) < one.entries:
            deleted += one.entries - len(chosen)
        elif len(chosen) != one.entries:
            problems.append(
                f"epoch {epoch[1]} of {epoch[0]}: its milestone counts {one.entries}, the list holds {len(chosen)}"
            )
    kept.sort(key=lambda pair: pair[0])
    gone = [f"{deleted:,} older entries are gone: the list's retention has deleted them"] if deleted else []
    return Choice([entry for _, entry in kept], problems, gone)


def carried(letters: Iterable[Letter], marks: Mapping[EventPosition, EventPosition]) -> list[Letter]:
    """Return the letters with their replays: a replay marked on one generation's letter counts for all."""
    return [replace(one, replayed=one.replayed or marks.get(one.event)) for one in letters]
