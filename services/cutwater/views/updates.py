"""Every row that a milestone changed, proved, straight from the changelog: what needs no materialised state."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from zlib import crc32

from confluent_kafka import Message

from cutwater.adapters.avro import HEADER_BYTES, Codec, crc64
from cutwater.adapters.hashing import row_hash, rows_hash
from cutwater.core.cuts import Cut
from cutwater.core.digest import fold
from cutwater.core.errors import DivergenceError
from cutwater.core.formats import is_confluent
from cutwater.core.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.records import Milestone
from cutwater.core.restore import Jump, Step, fresh
from cutwater.views.proving import headers_of, prove, require_schema, require_whole
from cutwater.views.ranges import Range, Ranges

PART_ROWS = 100_000
"""Rows held in memory; a milestone of more is read twice: to be proved, and then as a stream."""

PROOF_ROWS = 500_000
"""Keys held at a time to tell repeated rows of a large milestone apart."""


Row = tuple[int, int, bytes, bytes]
"""One row as the changelog holds it: partition, where the changelog goes on after it (0 where it was not read from
there), key, value. A plain tuple: there may be millions."""


class Updates:
    """Every row of the milestone's own epoch; of several milestones as one, every row between their cuts."""

    def __init__(self, job: Job, ranges: Ranges, now_ms: Callable[[], int], part_rows: int = PART_ROWS) -> None:
        self._ranges = ranges
        self._now_ms = now_ms
        self._part_rows = part_rows
        self._key_header = Codec(WINDOW_KEY_SCHEMA).header
        self._value_header = Codec(job.state_schema).header
        self._fingerprint = crc64(job.state_schema).hex()

    def rows(self, plan: Step | Jump, since: Cut, progress: Cut | None = None) -> Generator[Row]:
        """The rows between `since`, the cut of the milestone before, and the plan's milestone.

        `progress`: how far an earlier reading of it came, where it was broken off after some rows. Raises
        DivergenceError where the changelog is not what the milestone proves; Overtaken, perhaps after some rows,
        where compaction has taken values: they go on with a later milestone.
        """
        milestone, first = plan.to.milestone, since if progress is None else progress
        require_schema(self._ranges.topic, milestone, self._fingerprint)
        if isinstance(plan, Jump):
            yield from self._newer(milestone, first)
        elif milestone.rows <= self._part_rows:
            yield from self._own(milestone, since)
        else:
            # Parts of it are seen before the last row is read: so prove it first.
            self._prove(milestone, since)
            yield from self._in_log_order(milestone, first, proved=True)
            require_whole(milestone, {}, self._now_ms())

    def _own(self, milestone: Milestone, since: Cut) -> Iterator[Row]:
        """A task that ran twice wrote a row twice: the last one counts."""
        own: dict[bytes, Row] = {}
        for row in self._in_log_order(milestone, since):
            own[row[2]] = row
            if len(own) > milestone.rows:
                break  # proved wrong already
        require_whole(milestone, {}, self._now_ms())
        prove(self._ranges.topic, milestone, len(own), rows_hash(row[2:] for row in own.values()))
        yield from own.values()

    def _prove(self, milestone: Milestone, since: Cut) -> None:
        """By passes over a slice of the keys each, as memory demands."""
        rows = digest = 0
        passes = -(-milestone.rows // PROOF_ROWS)
        for number in range(passes):
            last = {
                key: row_hash(key, value)
                for _, _, key, value in self._in_log_order(milestone, since)
                if crc32(key) % passes == number
            }
            rows, digest = rows + len(last), fold(last.values(), digest)
        require_whole(milestone, {}, self._now_ms())
        prove(self._ranges.topic, milestone, rows, digest)

    def _in_log_order(self, milestone: Milestone, since: Cut, proved: bool = False) -> Iterator[Row]:
        """`proved`: an earlier reading was; this one may be of a part of the range."""
        range_ = self._ranges.between(since, milestone)
        generation, attempt, epoch = headers_of(milestone)
        wanted = [("generation", generation), ("attempt", attempt), ("epoch", epoch)]
        # With as many records as rows each must be one, and the digest proves it: to look at the headers would
        # take as long as everything else together.
        look = proved or range_.records_max != milestone.rows
        for batch in range_.batches():
            yield from self._rows([one for one in batch if one.headers() == wanted] if look else batch)

    def _newer(self, milestone: Milestone, since: Cut) -> Iterator[Row]:
        """Of a key several rows may come: they are in order, and a reader keeps the last."""
        range_: Range = self._ranges.between(since, milestone, look_above=not fresh(milestone, self._now_ms()))
        for batch in range_.batches():
            yield from self._rows(batch)
        require_whole(milestone, range_.first_above_ms, self._now_ms())

    def _rows(self, messages: list[Message]) -> list[Row]:
        """The rows among the records; a tombstone is none: its window is below the horizon."""
        key_header, value_header, header_bytes = self._key_header, self._value_header, HEADER_BYTES
        rows: list[Row] = []
        for message in messages:
            key, value = message.key(), message.value()
            if value is None:
                continue
            known = value[:header_bytes] == value_header or is_confluent(value)
            if key is None or key[:header_bytes] != key_header or not known:
                raise DivergenceError(
                    f"{message.topic()}/{message.partition()}@{message.offset()} is no row of this job: use the "
                    "job file that the driver runs with, or find out who else writes there"
                )
            rows.append((message.partition(), message.offset() + 1, key, value))
        return rows
