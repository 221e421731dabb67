"""Every row that a milestone changed, proved, straight from the changelog: what needs no materialised state."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple
from zlib import crc32

from confluent_kafka import Message

from cutwater.adapters.avro import HEADER_BYTES, Codec
from cutwater.adapters.hashing import row_hash
from cutwater.core.cuts import Cut
from cutwater.core.digest import fold
from cutwater.core.errors import DivergenceError
from cutwater.core.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.records import Milestone
from cutwater.core.restore import Jump, Step, fresh
from cutwater.views.proving import headers_of, prove, require_whole
from cutwater.views.ranges import Range, Ranges

PART_ROWS = 100_000
"""Rows held in memory; a milestone of more is read twice: to be proved, and then as a stream."""

PROOF_ROWS = 500_000
"""Keys held at a time to tell repeated rows of a large milestone apart."""


class Row(NamedTuple):
    """One row as the changelog holds it."""

    partition: int
    next_offset: int
    """Where the changelog goes on after it; 0 where the row was not read from there."""
    key: bytes
    value: bytes


class Updates:
    """Every row of the milestone's own epoch; of several milestones as one, every row between their cuts."""

    def __init__(self, job: Job, ranges: Ranges, now_ms: Callable[[], int], part_rows: int = PART_ROWS) -> None:
        self._ranges = ranges
        self._now_ms = now_ms
        self._part_rows = part_rows
        self._key_header = Codec(WINDOW_KEY_SCHEMA).header
        self._value_header = Codec(job.state_schema).header

    def rows(self, plan: Step | Jump, since: Cut, progress: Cut | None = None) -> Generator[Row]:
        """The rows between `since`, the cut of the milestone before, and the plan's milestone.

        `progress`: how far an earlier reading of it came, where it was broken off after some rows. Raises
        DivergenceError where the changelog is not what the milestone proves; Overtaken, perhaps after some rows,
        where compaction has taken values: they go on with a later milestone.
        """
        milestone, first = plan.to.milestone, since if progress is None else progress
        if isinstance(plan, Jump):
            yield from self._newer(milestone, first)
        elif milestone.rows <= self._part_rows:
            yield from self._own(milestone, since)
        else:
            # Parts of it are seen before the last row is read: so prove it first.
            self._prove(milestone, since)
            yield from self._in_log_order(milestone, first)

    def _own(self, milestone: Milestone, since: Cut) -> Iterator[Row]:
        """A task that ran twice wrote a row twice: the last one counts."""
        own: dict[bytes, Row] = {}
        for row in self._in_log_order(milestone, since):
            own[row.key] = row
            if len(own) > milestone.rows:
                break  # proved wrong already
        require_whole(milestone, {}, self._now_ms())
        prove(self._ranges.topic, milestone, len(own), fold(row_hash(row.key, row.value) for row in own.values()))
        yield from own.values()

    def _prove(self, milestone: Milestone, since: Cut) -> None:
        """By passes over a slice of the keys each, as memory demands."""
        rows = digest = 0
        passes = -(-milestone.rows // PROOF_ROWS)
        for number in range(passes):
            last = {
                row.key: row_hash(row.key, row.value)
                for row in self._in_log_order(milestone, since)
                if crc32(row.key) % passes == number
            }
            rows, digest = rows + len(last), fold(last.values(), digest)
        prove(self._ranges.topic, milestone, rows, digest)

    def _in_log_order(self, milestone: Milestone, since: Cut) -> Iterator[Row]:
        generation, attempt, epoch = headers_of(milestone)
        wanted = [("generation", generation), ("attempt", attempt), ("epoch", epoch)]
        for message in self._ranges.between(since, milestone):
            if message.headers() == wanted and (row := self._row(message)):
                yield row

    def _newer(self, milestone: Milestone, since: Cut) -> Iterator[Row]:
        """Of a key several rows may come: they are in order, and a reader keeps the last."""
        range_: Range = self._ranges.between(since, milestone, look_above=not fresh(milestone, self._now_ms()))
        for message in range_:
            if row := self._row(message):
                yield row
        require_whole(milestone, range_.first_above_ms, self._now_ms())

    def _row(self, message: Message) -> Row | None:
        key, value = message.key(), message.value()
        if value is None:
            return None  # a tombstone: the window is below the horizon
        if key is None or key[:HEADER_BYTES] != self._key_header or value[:HEADER_BYTES] != self._value_header:
            raise DivergenceError(
                f"{message.topic()}/{message.partition()}@{message.offset()} is no row of this job: use the job "
                "file that the driver runs with, or find out who else writes there"
            )
        return Row(message.partition(), message.offset() + 1, key, value)
