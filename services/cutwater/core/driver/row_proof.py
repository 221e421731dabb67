"""The proof of rows: is what stands on the changelog exactly what this attempt wrote?

The changelog is not transactional, so a replayed epoch or a zombie executor can leave records there.
A pure repeat is harmless: the same epoch, a key that this attempt wrote too, and either the same value
or an older place in the log than this attempt's. Anything else would be served as state, and ends the
generation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.errors import DivergenceError, UsageError
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.row_digest import fold, signed

WRITER_HEADER = "writer"
"""The header of every record of a changelog. One, not three: Spark makes objects of each for every row."""


class ChangelogRow(NamedTuple):
    """One record of the changelog; the writer is None where its header is missing or unreadable."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    writer: Writer | None
    end_ms: int | None = None
    """The end of its window; None where the key is none of a changelog."""


class Writer(NamedTuple):
    """Who writes a row."""

    generation: Generation
    attempt: int
    epoch: int

    @property
    def header(self) -> bytes:
        """The value of a row's header."""
        return header_prefix(self.generation) + f"{self.attempt}/{self.epoch}".encode()

    @staticmethod
    def of_snapshot(generation: Generation, epoch: int) -> Writer:
        """Whom the rows of a snapshot name: their generation, and no attempt that ever ran: these count from 1.

        A view does not keep who wrote a row. So they are rows of the state, and of no milestone's own.
        """
        return Writer(generation, 0, epoch)

    @staticmethod
    def of_header(value: bytes | None) -> Writer | None:
        """The writer that a header names; None where it names none."""
        try:
            generation, attempt, epoch = (value or b"").decode().split("/")
            return Writer(Generation.parse(generation), int(attempt), int(epoch))
        except (ValueError, UsageError):
            return None


def header_prefix(generation: Generation) -> bytes:
    """What the header of every row of a generation begins with."""
    return f"{generation}/".encode()


def breach(header: bytes | None, last: Writer) -> str:
    """Why a row with this header cannot stand below the cut of a milestone; empty where it may.

    `last`: who wrote the milestone's own rows.
    """
    if header is None:
        return "was written by somebody without the header 'writer'"
    writer = Writer.of_header(header)
    if writer is None or writer.generation != last.generation:
        return f"was written by {header.decode(errors='replace')}, not by this generation"
    return overgrown(header, last)


def overgrown(header: bytes | None, last: Writer) -> str:
    """Why a record, be it a tombstone, says that a log has lost its end below a milestone's cut; empty where not.

    Whoever is later than the milestone writes above its cut. A record of theirs below it can only stand there if
    the log has lost its end and grown again: so records that the milestone had are missing.
    """
    writer = Writer.of_header(header)
    if writer is None or writer.generation != last.generation:
        return ""
    if (writer.epoch, writer.attempt) <= (last.epoch, last.attempt):
        return ""
    return (
        f"was written by epoch {writer.epoch}, attempt {writer.attempt}, and stands below the cut of epoch "
        f"{last.epoch}, attempt {last.attempt}: the log has lost its end and was written on"
    )


@dataclass(frozen=True)
class Written:
    """What one epoch's action wrote, as the executors counted it."""

    rows: Mapping[int, int]
    """Rows by partition."""
    digests: Mapping[int, int]
    """Signed 64-bit XOR of xxhash64(key, value), by partition."""

    @property
    def digest(self) -> int:
        """Of all rows, signed."""
        return signed(fold(self.digests.values()))


@dataclass(frozen=True)
class Suspect:
    """A partition whose end offset does not equal the baseline plus what was added."""

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
    """The partitions that need a look, by partition number: those that did not grow by just what was added.

    `doubted`: need one whatever they grew by, since what was added there may be lost, and something else be there.

    Raises DivergenceError when a partition ends below its baseline: the topic was truncated or made anew.
    """
    for partition, end in sorted(ends.items()):
        if end < baseline.get(partition, 0):
            raise DivergenceError(
                f"partition {partition} of the changelog ends at {end}, below the {baseline[partition]} that was "
                "written: the topic was truncated or made anew. Start a new generation from the last milestone."
            )
    return [
        Suspect(partition, baseline.get(partition, 0), end)
        for partition, end in sorted(ends.items())
        if partition in doubted or end - baseline.get(partition, 0) != added.get(partition, 0)
    ]


def own_rows(records: Iterable[ChangelogRow], me: Writer) -> dict[bytes, ChangelogRow]:
    """The last row of each key that this attempt wrote in this epoch: a task may have run twice."""
    return {
        record.key: record
        for record in records
        if record.writer == me and record.key is not None and record.value is not None
    }


def foreign_rows(range_: Iterable[ChangelogRow], me: Writer, rows: int) -> list[ChangelogRow]:
    """The records of a suspect range that are no pure repeat.

    Raises DivergenceError when this attempt's own rows are not all there: acknowledged rows were lost.
    """
    records = list(range_)
    own = own_rows(records, me)
    if len(own) != rows:
        partition = records[0].partition if records else "?"
        raise DivergenceError(
            f"partition {partition} holds {len(own)} keys of epoch {me.epoch} attempt {me.attempt}, and {rows} "
            "were acknowledged: the changelog lost or doubled records. Start a new generation from the last "
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
    """The first few foreign records, for an error message."""
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
    """At a start: records above the newest barrier that the epoch about to run cannot supersede.

    What a killed attempt left of that very epoch is written again, and proved at its barrier.
    """
    return [
        record
        for record in range_
        if record.writer is None
        or (record.writer.generation, record.writer.epoch) != (generation, next_epoch)
        or record.writer.attempt >= attempt
    ]
