"""A cut: the next offset per partition of a set of topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.errors import UsageError


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True)
class Cut:
    """An immutable map (topic, partition) -> next offset: everything below the offset is inside the cut."""

    entries: tuple[tuple[TopicPartition, int], ...] = ()

    @staticmethod
    def of(offsets: Mapping[TopicPartition, int]) -> Cut:
        for place, offset in offsets.items():
            # Kafka clients return -1001 and the like for "unknown".
            if offset < 0:
                raise UsageError(f"offset {offset} of {place.topic}/{place.partition} is not a position")
        return Cut(tuple(sorted((TopicPartition(*place), offset) for place, offset in offsets.items())))

    @staticmethod
    def of_topic(topic: str, offsets: Iterable[int]) -> Cut:
        return Cut.of({TopicPartition(topic, number): offset for number, offset in enumerate(offsets)})

    def __iter__(self) -> Iterator[tuple[TopicPartition, int]]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def as_dict(self) -> dict[TopicPartition, int]:
        return dict(self.entries)

    def offset(self, place: TopicPartition, default: int = 0) -> int:
        """Return the next offset of a partition; `default` if the cut does not name it."""
        return self.as_dict().get(place, default)

    def and_(self, other: Cut) -> Cut:
        """Return the union of two cuts; if both name a partition, the offset of `other` counts."""
        return Cut.of({**self.as_dict(), **other.as_dict()})

    def covers(self, other: Cut) -> bool:
        """Return whether this cut is at or past `other` in every partition that `other` names."""
        mine = self.as_dict()
        return all(mine.get(place, -1) >= offset for place, offset in other)

    @property
    def records(self) -> int:
        """The number of offsets inside the cut."""
        return sum(offset for _, offset in self)

    def records_since(self, earlier: Cut) -> int:
        before = earlier.as_dict()
        return sum(offset - before.get(place, 0) for place, offset in self)


NOWHERE = Cut()
"""The cut that names no partition."""


def offsets_text(first: int, end: int) -> str:
    """Return the name of the offsets from `first` up to below `end`, for messages."""
    return f"offset {first}" if end == first + 1 else f"offsets {first} to {end - 1}"


@dataclass(frozen=True)
class Range:
    """The offsets of one epoch."""

    before: Cut
    """The source cut of the epoch before; for the first epoch that of the parent milestone, or empty."""
    cut: Cut
    closed_ms: int
    """Windows that end at or below it are closed for the epoch."""


@dataclass(frozen=True)
class EpochPlan:
    """The content of `offsets/N` of the checkpoint."""

    source_cut: Cut
    watermark_ms: int
