"""A bulk restore: what its workers are told and tell, and how the partitions are divided among them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from cutwater.core.driver.row_proof import Writer
from cutwater.core.errors import UsageError
from cutwater.core.protocol.row_digest import fold
from cutwater.core.state.selection import Selection


class Slice(NamedTuple):
    """Records of one partition: offsets in [first, end)."""

    partition: int
    first: int
    end: int

    @property
    def records_max(self) -> int:
        return max(0, self.end - self.first)


def divided(slices: Iterable[Slice], workers: int) -> list[list[Slice]]:
    """The slices that have anything, in at most so many even parts: the largest first, each to who has least."""
    parts: list[list[Slice]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for one in sorted(slices, key=lambda one: (-one.records_max, one.partition)):
        if one.records_max:
            least = loads.index(min(loads))
            parts[least].append(one)
            loads[least] += one.records_max
    return [part for part in parts if part]


@dataclass(frozen=True)
class Task:
    """What one worker does: read its slices, and write what is left of them as sorted files."""

    topic: str
    slices: Sequence[Slice]
    folder: str
    segment_ms: int
    floor_ms: int
    """Windows that end at or below it are not kept."""
    horizon_ms: int
    """A tombstone above it is a breach."""
    own: str
    """The header of the milestone's own rows, which are counted and proved; no row may be of anybody later."""
    key_header: str
    value_header: str
    """Of key and value, as hexadecimal digits."""
    rows_max: int
    bytes_max: int
    """Of keys and values held in memory before a file is written."""
    stall_s: float
    native: bool = False
    """Are rows gathered by the optional module? Who says so has seen that it can be imported."""
    selection: Selection | None = None
    """What is kept of the rows that are read and proved; None for all."""

    @property
    def last(self) -> Writer:
        """Who wrote the milestone's own rows. Raises UsageError where that is no header of ours."""
        writer = Writer.of_header(self.own.encode())
        if writer is None:
            raise UsageError(f"a worker of a bulk restore is started by a service (writer {self.own!r})")
        return writer

    def text(self) -> str:
        selection = self.selection.as_object() if self.selection else None
        return json.dumps({**asdict(self), "selection": selection})

    @staticmethod
    def of(text: str) -> Task:
        """Raises UsageError."""
        try:
            told = json.loads(text)
            slices = [Slice(*one) for one in told["slices"]]
            return Task(**{**told, "slices": slices, "selection": Selection.of_object(told.get("selection"))})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"a worker of a bulk restore is started by a service ({error})") from None


@dataclass(frozen=True)
class Done:
    """How far a restore has come. All below `next` is in the store, whatever happens to us."""

    next: Mapping[int, int]
    """By partition."""
    rows: int = 0
    digest: int = 0
    """Of the milestone's own rows, unsigned; a row that stands on the log twice counts twice."""
    records: int = 0
    bytes: int = 0

    def plus(self, other: Done) -> Done:
        return Done(
            {**self.next, **other.next},
            self.rows + other.rows,
            fold((other.digest,), self.digest),
            self.records + other.records,
            self.bytes + other.bytes,
        )

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of(text: str) -> Done:
        """Of our own text."""
        told = json.loads(text)
        return Done(**{**told, "next": {int(at): offset for at, offset in told["next"].items()}})


def left(slices: Iterable[Slice], done: Done) -> list[Slice]:
    """What is still to be read."""
    return [Slice(at, max(first, done.next.get(at, first)), end) for at, first, end in slices]
