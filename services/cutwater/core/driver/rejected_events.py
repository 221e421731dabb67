"""The entries of the two lists, and which of them count: those that the milestones of the lineage account for.

A list is not transactional. A killed attempt may have listed events of an epoch that a later attempt listed
again, or, under another job file, did not reject at all. So an entry counts if the attempt that wrote it won its
epoch's milestone. Where a zombie's equal entry has overwritten the winner's, that one stands for it: the milestone
says how many there must be. Each generation lists for itself: `cutwater.core.driver.rejected_events_by_lineage`
says whose epochs are asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from cutwater.core.protocol.generation import Generation

T = TypeVar("T")

FIELD_HEADER, RULE_HEADER = "flaw-field", "flaw-rule"
"""Headers of a dead letter's record: which field it is about, if any, and what is not as it must be."""
HEAD_BYTES = 200
"""So much of a rejected event is shown."""


class Place(NamedTuple):
    """Where an event stands, or has been produced again."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class Listed(NamedTuple):
    """Who listed an entry."""

    generation: Generation
    attempt: int
    epoch: int


@dataclass(frozen=True)
class Letter:
    """A dead letter, without its bytes."""

    event: Place
    by: Listed
    reason: str
    key: bytes | None
    value_bytes: int | None
    """The size of the event's value; None where it has none."""
    written_ms: int
    """The timestamp of the event's record: whatever its producer gave, in years far away too."""
    replayed: Place | None
    at: tuple[int, int]
    """(partition, offset) on the dead-letter topic."""
    field: str | None = None
    """Whose value is not as it must be; None where that is the record's, or a version before has listed it."""
    rule: str | None = None
    """What is not as it must be, for people; None where a version before has listed it."""
    head: bytes | None = None
    """The first bytes of the event's value; None without one, and where payloads are not to be shown."""


@dataclass(frozen=True)
class LatePair:
    """An event that came too late for one window."""

    event: Place
    by: Listed
    key: str
    window_start_ms: int
    window_end_ms: int
    event_time_ms: int
    watermark_ms: int


class Told(NamedTuple):
    """What the milestone of an epoch says: the attempt that won, and how many entries the epoch listed."""

    attempt: int
    entries: int


Epoch = tuple[Generation, int]


@dataclass(frozen=True)
class Choice(Generic[T]):
    """The entries that count, in the order given, and what is wrong with the list."""

    entries: list[T]
    problems: list[str]
    elsewhere: list[str] = field(default_factory=list)
    """What stands on the lists of other regions: no fault of this one."""


def choose(entries: Iterable[tuple[Listed, T]], told: Mapping[Epoch, Told], forgetful: bool = False) -> Choice[T]:
    """The entries of `told`'s epochs that count; entries of other epochs are not, or not yet, of the lineage.

    `forgetful`: the list's retention has deleted some of its oldest entries, so fewer than were told are no fault.
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


def carried(letters: Iterable[Letter], marks: Mapping[Place, Place]) -> list[Letter]:
    """The letters with where their events went, by whichever generation's letter that was.

    A replay is of the event: the source holds it again for every generation.
    """
    return [replace(one, replayed=one.replayed or marks.get(one.event)) for one in letters]
