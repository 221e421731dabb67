"""Bulk restore: the tasks and results of its workers, and the division of partitions among them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.protocol.changelog_rows import Writer, fold
from cutwater.core.state.selection import Selection

BULK_RECORDS = 100_000
"""Fewer records are read in the process that needs them, since starting another takes 0.25 s."""


class Slice(NamedTuple):
    """Records of one partition: offsets in [first, end)."""

    partition: int
    first: int
    end: int

    @property
    def records_max(self) -> int:
        return max(0, self.end - self.first)


def divided(slices: Iterable[Slice], workers: int) -> list[list[Slice]]:
    """Divide the non-empty slices into at most `workers` even parts: largest slice first, to the smallest part."""
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
    """The task of one worker: read its slices and write the newest rows as sorted files."""

    topic: str
    slices: Sequence[Slice]
    folder: str
    segment_ms: int
    floor_ms: int
    """Windows that end at or below it are not kept."""
    horizon_ms: int
    """A tombstone above it is a contract breach."""
    own: str
    """The header of the milestone's own rows, which are counted and proved; no row may be of a later writer."""
    key_header: str
    value_header: str
    """Headers of key and value, in hexadecimal."""
    rows_max: int
    bytes_max: int
    """Bytes of keys and values held in memory before a file is written."""
    stall_s: float
    native: bool = False
    """Whether the optional native module gathers the rows; the caller has checked that it can be imported."""
    selection: Selection | None = None
    """The rows to keep of those read and proved; None for all."""
    niceness: int = 0
    """Added to that of the worker's process, if it has one (0 to 19)."""

    @property
    def last(self) -> Writer:
        """The writer of the milestone's own rows. Raises UsageError if `own` is not one of our headers."""
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
    """The progress of a restore. All records below `next` are durable in the store."""

    next: Mapping[int, int]
    """Offset by partition."""
    rows: int = 0
    digest: int = 0
    """Unsigned digest of the milestone's own rows; a row that is on the log twice counts twice."""
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
        """Parse what `text` returned."""
        told = json.loads(text)
        return Done(**{**told, "next": {int(at): offset for at, offset in told["next"].items()}})


def remaining_slices(slices: Iterable[Slice], done: Done) -> list[Slice]:
    """Return what is still to be read of the slices."""
    return [Slice(at, max(first, done.next.get(at, first)), end) for at, first, end in slices]
