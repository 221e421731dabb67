"""A comparison of schema ids in two registries, because events are copied with their ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

REFERENCED_MAX, REFERENCES_DEEP = 100, 20
"""Schemas that one subject's schemas refer to, and the depth of references."""


class Reference(NamedTuple):
    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Entry:
    subject: str
    version: int
    id: int
    """The schema id in the header of its events."""
    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: tuple[Reference, ...]
    meaning: str
    """A fingerprint of the parts that readers use."""

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}, number {self.id} ({self.meaning})"


class SubjectComparison(NamedTuple):
    """The differences between two registries in one subject."""

    missing: tuple[Entry, ...] = ()
    """Missing here; their ids and versions are free."""
    taken: tuple[str, ...] = ()
    """Missing here, while their version has another id here: one text each. Never overwritten."""
    conflicts: tuple[str, ...] = ()
    """Ids of another schema here, with which events would be read wrong: one text each."""

    @property
    def unreadable(self) -> list[str]:
        return [*self.conflicts, *self.taken, *(f"{one} is not known here" for one in self.missing)]


def compare_subject(there: Sequence[Entry], here: Sequence[Entry], meant: Mapping[int, str]) -> SubjectComparison:
    """Compare the versions of one subject. `meant`: the meaning of every id here, whatever its subject."""
    by_id, by_version = {one.id: one for one in here}, {one.version: one for one in here}
    missing, taken, conflicts = [], [], []
    for one in there:
        known = by_id.get(one.id)
        means = known.meaning if known else meant.get(one.id)
        if means not in (None, one.meaning):
            place = f"version {known.version}" if known else "of another subject"
            conflicts.append(f"{one}: number {one.id} is another schema here, {means}, {place}")
        elif known is None and one.version in by_version:
            taken.append(f"{one} is not known here: its place is taken by {by_version[one.version]}")
        elif known is None:
            missing.append(one)
    return SubjectComparison(tuple(missing), tuple(taken), tuple(conflicts))
