"""Do two schema registries mean the same by a number? Events that name one are copied as they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Reference(NamedTuple):
    """What a schema needs of another subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Entry:
    """One version of a subject, as it stands in a registry."""

    subject: str
    version: int
    id: int
    """The number that stands in the header of its events."""
    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: tuple[Reference, ...]
    meaning: str
    """A fingerprint of what readers resolve by."""

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}, number {self.id} ({self.meaning})"


class Judged(NamedTuple):
    """What two registries are to each other, of one subject."""

    missing: tuple[Entry, ...] = ()
    """Not known here; their numbers and versions are free."""
    taken: tuple[str, ...] = ()
    """Not known here, and another number stands here under their version, a text each: never overwritten."""
    conflicts: tuple[str, ...] = ()
    """Numbers that are another schema here, a text each: events would be read wrong."""

    @property
    def unreadable(self) -> list[str]:
        """A text for each version whose events a reader here could not read as they were written."""
        return [*self.conflicts, *self.taken, *(f"{one} is not known here" for one in self.missing)]


def judged(there: Sequence[Entry], here: Sequence[Entry], meant: Mapping[int, str]) -> Judged:
    """Versions of one subject. `meant`: what numbers are in the registry here, under whatever subject."""
    by_id, by_version = {one.id: one for one in here}, {one.version: one for one in here}
    missing, taken, conflicts = [], [], []
    for one in there:
        known = by_id.get(one.id)
        means = known.meaning if known else meant.get(one.id)
        if means not in (None, one.meaning):
            place = f"version {known.version}" if known else "of another subject"
            conflicts.append(f"{one}: number {one.id} is another schema here, {means}, {place}")
        elif known is None and one.version in by_version:
            taken.append(f"{one} is not known here, where {by_version[one.version]} stands in its place")
        elif known is None:
            missing.append(one)
    return Judged(tuple(missing), tuple(taken), tuple(conflicts))
