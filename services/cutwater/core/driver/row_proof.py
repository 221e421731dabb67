"""Proof that the changelog holds exactly the rows that this attempt wrote.

The changelog is not transactional, so a replayed epoch or a zombie executor can leave records there. A pure repeat
is harmless: the same epoch, a key that this attempt wrote too, and either the same value or a lower offset than
this attempt's. Any other record would be served as state, so it ends the generation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.errors import DivergenceError, LostRecordsError
from cutwater.core.protocol.changelog_rows import Writer, fold, signed
from cutwater.core.protocol.generation import Generation


class ChangelogRow(NamedTuple):
    """One record of the changelog; `writer` is None if its header is missing or unreadable."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    writer: Writer | None
    end_ms: int | None = None
    """The end of its window; None if the key is not a changelog key."""


def breach(header: bytes | None, last: Writer) -> str:
    """Return why a row with this header may not be below the cut of a milestone; empty if it may. `last`: the
    writer of the milestone's own rows."""
    if header is None:
        return "was written without the header 'writer'"
    writer = Writer.of_header(header)
    if writer is None or writer.generation != last.generation:
        return f"was written by {header.decode(errors='replace')}, not by this generation"
    return overgrown(header, last)


def overgrown(header: bytes | None, last: Writer) -> str:
    """Return why a record (row or tombstone) shows that the log lost its end below a milestone's cut; else empty.

    A writer later than the milestone writes above its cut. Its record can only be below the cut if the log lost
    its end and grew again, so records of the milestone are missing.
    """
    writer = Writer.of_header(header)
    if writer is None or writer.generation != last.generation:
        return ""
    if (writer.epoch, writer.attempt) <= (last.epoch, last.attempt):
        return ""
    return (
        f"was written by epoch {writer.epoch}, attempt {writer.attempt}, but is below the cut of epoch "
        f"{last.epoch}, attempt {last.attempt}: the log has lost its end and was then written again"
    )


@dataclass(frozen=True)
class Written:
    """The rows written by one epoch, as counted by the executors."""

    rows: Mapping[int, int]
    """Rows by partition."""
    digests: Mapping[int, int]
    """Signed 64-bit XOR of xxhash64(key, value), by partition."""
    amended: int = 0
    """Rows of windows that end at or below the time that `ChangelogWriter` was given."""

    @property
    def digest(self) -> int:
        """The signed digest of all rows."""
        return signed(fold(self.digests.values()))


@dataclass(frozen=True)
class Suspect:
    """A partition whose end offset differs from the baseline plus the records added."""

    partition: int
    first: int
    """The baseline: the next offset after the epoch before."""
    end: int


def suspects(
    baseline: Mapping[int, int],
    ends: Mapping[int, int],
    added: Mapping[int, int],
    doubted: Collection[int] = (),
) -> list[Suspect]:
    """Return the partitions to read, in order: those that did not grow by exactly the number of records added.

    `doubted`: partitions to read in any case, because other records may have replaced lost ones there. Raises
    LostRecordsError if a partition ends below its baseline: the topic was truncated or recreated.
    """
    for partition, end in sorted(ends.items()):
        if end < baseline.get(partition, 0):
            raise LostRecordsError(
                f"partition {partition} of the changelog ends at {end}, below the {baseline[partition]} that was "
                "written: the topic was truncated or recreated"
            )
    return [
        Suspect(partition, baseline.get(partition, 0), end)
        for partition, end in sorted(ends.items())
        if partition in doubted or end - baseline.get(partition, 0) != added.get(partition, 0)
    ]


def own_rows(records: Iterable[ChangelogRow], me: Writer) -> dict[bytes, ChangelogRow]:
    """Return the last row of each key that this attempt wrote in this epoch; a task may have run twice."""
    return {
        record.key: record
        for record in records
        if record.writer == me and record.key is not None and record.value is not None
    }


def foreign_rows(range_: Iterable[ChangelogRow], me: Writer, rows: int) -> list[ChangelogRow]:
    """Return the records of a suspect range that are not pure repeats. Raises DivergenceError if acknowledged rows
    of this attempt are missing."""
    records = list(range_)
    own = own_rows(records, me)
    if len(own) != rows:
        partition = records[0].partition if records else "?"
        raise DivergenceError(
            f"partition {partition} holds {len(own)} keys of epoch {me.epoch} attempt {me.attempt}, but {rows} "
            "were acknowledged: the changelog lost or duplicated records. Start a new generation from the last "
            "milestone."
        )
    return [record for record in records if not _repeats(record, own, me)]


def _repeats(record: ChangelogRow, own: Mapping[bytes, ChangelogRow], me: Writer) -> bool:
    writer = record.writer
    if writer is None or record.key is None:
        return False
    if (writer.generation, writer.epoch) != (me.generation, me.epoch) or writer.attempt > me.attempt:
        return False
    mine = own.get(record.key)
    return mine is not None and (record.value == mine.value or record.offset < mine.offset)


def describe(records: list[ChangelogRow], topic: str, limit: int = 5) -> str:
    """Format the first foreign records for an error message."""
    shown = ", ".join(
        f"{topic}/{record.partition}@{record.offset} by {_writer(record.writer)}" for record in records[:limit]
    )
    more = f" and {len(records) - limit} more" if len(records) > limit else ""
    return shown + more


def _writer(writer: Writer | None) -> str:
    if writer is None:
        return "an unknown writer"
    return f"{writer.generation} attempt {writer.attempt} epoch {writer.epoch}"


def strays(
    range_: Iterable[ChangelogRow], generation: Generation, next_epoch: int, attempt: int
) -> list[ChangelogRow]:
    """Return, at a start, the records above the newest barrier that the next epoch cannot supersede. Records that
    a killed attempt left of that epoch are written again and proved at its barrier."""
    return [
        record
        for record in range_
        if record.writer is None
        or (record.writer.generation, record.writer.epoch) != (generation, next_epoch)
        or record.writer.attempt >= attempt
    ]
