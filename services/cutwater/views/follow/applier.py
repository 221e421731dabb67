"""Apply one milestone to the store: complete and proved, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import Message

from cutwater.adapters.hashing import rows_hash
from cutwater.core.errors import DivergenceError
from cutwater.core.job.job import Job
from cutwater.core.protocol.changelog_rows import fold
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry, Jump, Step, fresh
from cutwater.core.state.bulk_load import Slice
from cutwater.core.state.partition_share import Proof, proof_of
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.changelog.columns import Columns, OwnRowReader, columns
from cutwater.views.changelog.milestone_proof import prove
from cutwater.views.changelog.proof import (
    WriterCheck,
    counted_once,
    require_schema,
    require_whole,
    writer_of,
)
from cutwater.views.changelog.range_reader import Range, Ranges
from cutwater.views.changelog.record_reader import Row, RowReader, place_of
from cutwater.views.query.change_feed import ChangedRows, Rows
from cutwater.views.store.store import Store

CHUNK_ROWS = 50_000
"""The most rows held in memory and written in one batch."""

CHUNK_BYTES = 16 << 20


@dataclass
class Applied:
    """Result of applying a milestone."""

    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    rows: Rows | None = None
    """The rows that a step changed; None unless gathered."""


class Applier:
    """Read the ranges of one job's changelog into one store."""

    def __init__(
        self,
        store: Store,
        job: Job,
        ranges: Ranges,
        now_ms: Callable[[], int],
        chunk_rows: int = CHUNK_ROWS,
        floor_ms: Callable[[Milestone], int] = lambda milestone: milestone.horizon_ms,
        bulk: BulkLoader | None = None,
        evict: Callable[[Milestone], int | None] = lambda _: None,
        gathering: Callable[[], ChangedRows] = lambda: ChangedRows(0),
    ) -> None:
        """`floor_ms`: windows that end at or below it are not kept; the milestone's horizon, or less. `bulk`:
        the loader for large ranges. `evict`: called at each step, returns the lower bound of kept windows for
        `max_bytes`; None for the store's lower bound. `gathering`: returns where to copy the rows of a step."""
        self._evict = evict
        self._lower_ms: int | None = None
        self._bulk = bulk
        self._gathering = gathering
        self._store = store
        self._ranges = ranges
        self._reader = RowReader(job)
        self._own = OwnRowReader(job, ranges.topic)
        self._job = job
        self._now_ms = now_ms
        self._chunk_rows = chunk_rows
        self._floor_ms = floor_ms
        self.running = Applied()
        """Progress of the milestone that is being applied."""

    def apply(self, plan: Step | Jump) -> Applied:
        """Bring the store to the plan's milestone. Raises DivergenceError if the rows are not those that the
        milestone proves; Overtaken if some may be lost to compaction. The position then stays."""
        require_schema(self._ranges.topic, plan.to.milestone, self._job)
        self.running = Applied()
        started = time.monotonic()
        # An interrupted jump continues with the loaded rows, so it keeps the stored lower bound.
        lower = self._evict(plan.to.milestone) if isinstance(plan, Step) else None
        self._lower_ms = self._store.lower_ms if lower is None else lower
        if isinstance(plan, Jump):
            done = self._in_bulk(plan.to)
        else:
            done = self._proof(plan.to.milestone).rows <= self._chunk_rows and self._at_once(plan.to)
        if not done:
            self._in_chunks(plan.to, isinstance(plan, Jump))
        self.running.seconds = time.monotonic() - started
        return self.running

    def _proof(self, milestone: Milestone) -> Proof:
        return proof_of(milestone, self._ranges.partitions)

    def _range(self, milestone: Milestone, look_above: bool = False) -> Range:
        return self._ranges.between(self._since, milestone, look_above)

    @property
    def _since(self) -> Cut:
        applied = self._store.applied
        return applied.milestone.changelog_cut if applied else Cut()

    def _at_once(self, entry: Entry) -> bool:
        """Apply in one batch. Return False, with nothing changed, if the rows are too large for one."""
        milestone = entry.milestone
        own: dict[bytes, bytes] = {}
        rows_max, range_ = self._proof(milestone).rows, self._range(milestone)
        # With as many records as rows, the digest alone proves them. Reading headers would take a quarter of the
        # time.
        proved = range_.records_max == rows_max
        for _, messages in range_.pieces():
            # A task that ran twice wrote a row twice: the last one counts.
            own.update(self._told_apart(messages, milestone, proved=proved)[0].rows())
            if len(own) > rows_max:
                break  # the milestone is not proved
            if self.running.bytes > CHUNK_BYTES:
                return False
        digest = rows_hash(own.keys(), own.values())
        require_whole(milestone, {}, self._now_ms())
        prove(self._ranges, milestone, self._since, len(own), digest)
        kept = self._rows_to_keep(milestone, own)
        gathered = self._gathering()
        self._commit(entry, kept)
        gathered.add(kept)
        self.running.rows = gathered.rows
        return True

    def _in_bulk(self, entry: Entry) -> bool:
        """Load by workers. Return False, with nothing changed, if the range is too small for that."""
        milestone = entry.milestone
        bounds = self._ranges.bounds(self._since, milestone)
        slices = [Slice(partition, *bound) for partition, bound in bounds.items()]
        if self._bulk is None or not self._bulk.is_worthwhile(slices):
            return False
        self._store.begin(entry)
        floor_ms = self._floor_ms(milestone)
        done = self._bulk.load(milestone, slices, floor_ms)
        self.running.records, self.running.bytes = done.records, done.bytes
        above = self._ranges.between(
            milestone.changelog_cut, milestone, look_above=not fresh(milestone, self._now_ms())
        )
        for _ in above:  # empty range, read to find the first record above the cut
            pass
        require_whole(milestone, above.first_above_ms, self._now_ms())
        self._ranges.require_kept(milestone)
        rows, digest = done.rows, done.digest
        if rows > self._proof(milestone).rows:
            rows, digest = self._recount(milestone, rows)
        prove(self._ranges, milestone, self._since, rows, digest)
        self._store.commit(entry, {}, bulk=True, floor_ms=floor_ms)
        return True

    def _in_chunks(self, entry: Entry, jump: bool) -> None:
        """Apply in several batches. Readers keep the previous milestone's rows until the commit."""
        milestone = entry.milestone
        range_ = self._range(milestone, look_above=jump and not fresh(milestone, self._now_ms()))
        rows = digest = size = 0
        chunk: dict[bytes, bytes] = {}
        gathered = ChangedRows(0) if jump else self._gathering()
        self._store.begin(entry)
        for messages in self._parts(range_):
            own, every = self._told_apart(messages, milestone, jump)
            rows, digest = rows + len(own.keys), fold((rows_hash(own.keys, own.values),), digest)
            chunk |= self._rows_to_keep(milestone, dict(every.rows()))
            size += every.size
            if len(chunk) >= self._chunk_rows or size > CHUNK_BYTES:
                self._store.put(chunk, bulk=jump)
                gathered.add(chunk)
                chunk, size = {}, 0
        require_whole(milestone, range_.first_above_ms, self._now_ms())
        if jump:
            self._ranges.require_kept(milestone)
        if rows > self._proof(milestone).rows:
            rows, digest = self._recount(milestone, rows)
        prove(self._ranges, milestone, self._since, rows, digest)
        self._commit(entry, chunk, bulk=jump)
        gathered.add(chunk)
        self.running.rows = gathered.rows

    def _commit(self, entry: Entry, rows: dict[bytes, bytes], bulk: bool = False) -> None:
        floor_ms = self._floor_ms(entry.milestone)
        self._store.commit(entry, rows, bulk=bulk, floor_ms=floor_ms, lower_ms=self._lower_ms)

    def _parts(self, range_: Range) -> Iterator[Sequence[Message]]:
        for _, messages in range_.pieces():
            for at in range(0, len(messages), self._chunk_rows):
                yield messages[at : at + self._chunk_rows]

    def _told_apart(
        self, messages: Sequence[Message], milestone: Milestone, jump: bool = False, proved: bool = False
    ) -> tuple[Columns, Columns]:
        """Return the milestone's own rows, and the rows to store: for a jump, all rows of its generation.
        `proved`: the digest proves that the records are the milestone's own."""
        wanted = writer_of(milestone)
        if (own := self._own.of(messages, None if proved else wanted)) is not None:
            self.running.records += len(messages)
            self.running.bytes += own.size
            return own, own
        rows = list(self._rows(messages, milestone, jump))
        own = columns(row for row in rows if row.writer == wanted)
        return own, columns(rows) if jump else own

    def _rows(self, messages: Iterable[Any], milestone: Milestone, jump: bool = False) -> Iterator[Row]:
        """Yield the rows. Tombstones are garbage collection below the horizon and are skipped. `jump`: rows of
        any writer count, so each writer is checked."""
        below = WriterCheck(milestone)
        for message in messages:
            row = self._reader.row(message)
            self.running.records += 1
            self.running.bytes += len(row.key) + len(row.value)
            if jump:
                below.require(partial(place_of, message), row.writer, live=not row.deleted)
            if not row.deleted:
                yield row
            elif row.window.end_ms > milestone.horizon_ms:
                raise DivergenceError(
                    f"{self._ranges.topic}: a tombstone below milestone {milestone.token} is for {row.window}, "
                    "which is above the horizon: a live row was deleted. Start a new generation."
                )

    def _rows_to_keep(self, milestone: Milestone, rows: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Return the rows of the state: above the floor and the lower bound, and within the selection."""
        floor_ms = self._floor_ms(milestone)
        if self._lower_ms is not None:
            floor_ms = max(floor_ms, self._lower_ms)
        return self._own.storage_rows(rows, self._store.segment_ms, floor_ms, self._store.selection)

    def _recount(self, milestone: Milestone, rows_max: int) -> tuple[int, int]:
        """Count each key once, by its last row. Compaction may have overtaken this second read."""
        wanted = writer_of(milestone)

        def read() -> Iterator[tuple[bytes, bytes]]:
            range_ = self._range(milestone, look_above=not fresh(milestone, self._now_ms()))
            for row in self._rows(range_, milestone):
                if row.writer == wanted:
                    yield row.key, row.value
            require_whole(milestone, range_.first_above_ms, self._now_ms())

        return counted_once(read, rows_max)
