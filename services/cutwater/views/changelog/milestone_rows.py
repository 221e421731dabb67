"""Every row that a milestone changed, proved and read from the changelog, without a materialised view."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from operator import methodcaller

from confluent_kafka import Message

from cutwater.adapters.avro.codec import HEADER_BYTES, Codec
from cutwater.adapters.hashing import rows_hash
from cutwater.core.errors import DivergenceError
from cutwater.core.events.formats import is_confluent
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, fold
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Jump, Step, fresh
from cutwater.views.changelog.milestone_proof import prove
from cutwater.views.changelog.proof import (
    WriterCheck,
    counted_once,
    require_schema,
    require_whole,
    writer_of,
)
from cutwater.views.changelog.range_reader import Range, Ranges
from cutwater.views.changelog.record_reader import header_of, place_of
from cutwater.views.changelog.row_batch import Piece, pieces_of

_key, _value, _offset = methodcaller("key"), methodcaller("value"), methodcaller("offset")

PART_ROWS = 100_000
PART_BYTES = 32 << 20
"""Bounds of the rows held in memory. A larger milestone is read twice: to prove it, then as a stream."""


class Updates:
    """The rows of a milestone's own epoch; for a jump over several milestones, every row between their cuts."""

    def __init__(
        self,
        job: Job,
        ranges: Ranges,
        now_ms: Callable[[], int],
        part_rows: int = PART_ROWS,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._ranges = ranges
        self._now_ms = now_ms
        self._part_rows = part_rows
        self._part_bytes = part_bytes
        self._key_header = Codec(WINDOW_KEY_SCHEMA).header
        self._value_header = Codec(job.state_schema).header
        self._job = job

    def rows(self, plan: Step | Jump, since: Cut) -> Iterator[tuple[bytes, bytes]]:
        """Yield key and value of every row; see `pieces`."""
        for piece in self.pieces(plan, since):
            yield from piece.rows()

    def pieces(self, plan: Step | Jump, since: Cut, progress: Cut | None = None) -> Generator[Piece]:
        """Yield the rows between `since`, the previous milestone's cut, and the plan's milestone.

        `progress`: the cut up to which an earlier, interrupted call has yielded rows. Raises DivergenceError if
        the changelog is not what the milestone proves; Overtaken, perhaps after some rows, if compaction has
        removed values: the caller then continues with a later milestone.
        """
        milestone, first = plan.to.milestone, since if progress is None else progress
        require_schema(self._ranges.topic, milestone, self._job)
        if isinstance(plan, Jump):
            yield from self._newer(milestone, since, first)
        elif (own := self._own(milestone, since)) is not None:
            yield from own
        else:
            # Some rows are used before the last one is read, so prove it first.
            self._prove(milestone, since)
            yield from self._stream(milestone, first)

    def _own(self, milestone: Milestone, since: Cut) -> list[Piece] | None:
        """Return all rows, proved; None if they are too many or too large for the memory."""
        if milestone.rows > self._part_rows:
            return None
        range_ = self._ranges.between(since, milestone)
        # With as many records as rows, the digest alone proves them. Reading headers would double the time.
        exact = range_.records_max == milestone.rows
        pieces = self._as_they_come(range_) if exact else self._last(milestone, range_)
        if pieces is not None:
            require_whole(milestone, {}, self._now_ms())
            digest = fold(rows_hash(piece.keys, piece.values) for piece in pieces)
            prove(self._ranges, milestone, since, sum(map(len, pieces)), digest)
        return pieces

    def _as_they_come(self, range_: Range) -> list[Piece] | None:
        pieces: list[Piece] = []
        size = 0
        for partition, messages in range_.pieces():
            pieces.append(self._piece(partition, messages, proved=True))
            size += pieces[-1].size
            if size > self._part_bytes:
                return None
        return pieces

    def _last(self, milestone: Milestone, range_: Range) -> list[Piece] | None:
        """Select the milestone's rows. A task that ran twice wrote a row twice; the last one counts."""
        last: dict[bytes, tuple[int, int, bytes, bytes]] = {}
        size = 0
        for piece in self._told_apart(milestone, range_):
            for key, value, offset in zip(piece.keys, piece.values, piece.offsets, strict=True):
                last[key] = (piece.partition, offset, key, value)
            size += piece.size
            if size > self._part_bytes:
                return None
            if len(last) > milestone.rows:
                break  # the milestone is not proved
        return list(pieces_of(last.values()))

    def _prove(self, milestone: Milestone, since: Cut) -> None:
        def read() -> Iterator[tuple[bytes, bytes]]:
            for piece in self._told_apart(milestone, self._ranges.between(since, milestone)):
                yield from piece.rows()

        rows, digest = counted_once(read, milestone.rows)
        require_whole(milestone, {}, self._now_ms())
        prove(self._ranges, milestone, since, rows, digest)

    def _stream(self, milestone: Milestone, first: Cut) -> Iterator[Piece]:
        """Yield the proved rows in another read. No row of a piece is missing. Checked for each piece and not
        only at the end, since compaction may have removed rows after the proof. Pieces yielded before stay
        right, and the rest arrives with a later milestone."""
        for piece in self._told_apart(milestone, self._ranges.between(first, milestone)):
            require_whole(milestone, {}, self._now_ms())
            yield piece
        require_whole(milestone, {}, self._now_ms())

    def _newer(self, milestone: Milestone, since: Cut, first: Cut) -> Iterator[Piece]:
        """Yield the rows of a jump. A key may have several rows, in order; a reader keeps the last."""
        pieces = self._prove_newer(milestone, since)
        if pieces is not None and first == since:
            yield from pieces
            return
        range_ = self._jumped(milestone, first)
        for partition, messages in range_.pieces():
            yield self._piece(partition, messages)
        require_whole(milestone, range_.first_above_ms, self._now_ms())
        self._ranges.require_kept(milestone)

    def _prove_newer(self, milestone: Milestone, since: Cut) -> list[Piece] | None:
        """Prove a jump before any row is yielded; return its rows, or None if they are too many and must be
        read again. The milestone's own rows must be there, and none of a foreign writer."""
        kept: list[Piece] = []
        few = self._jumped(milestone, since).records_max <= self._part_rows
        own, below = writer_of(milestone), WriterCheck(milestone)

        def read() -> Iterator[tuple[bytes, bytes]]:
            nonlocal few
            kept.clear()
            size = 0
            range_ = self._jumped(milestone, since)
            for partition, messages in range_.pieces():
                writers = list(map(header_of, messages))
                for one, writer in zip(messages, writers, strict=True):
                    below.require(partial(place_of, one), writer, live=one.value() is not None)
                if few:
                    kept.append(self._piece(partition, messages))
                    size += kept[-1].size
                    few = size <= self._part_bytes
                mine = [one for one, writer in zip(messages, writers, strict=True) if writer == own]
                yield from self._piece(partition, mine).rows()
            require_whole(milestone, range_.first_above_ms, self._now_ms())

        rows, digest = counted_once(read, milestone.rows)
        self._ranges.require_kept(milestone)
        prove(self._ranges, milestone, since, rows, digest)
        return kept if few else None

    def _jumped(self, milestone: Milestone, since: Cut) -> Range:
        return self._ranges.between(since, milestone, look_above=not fresh(milestone, self._now_ms()))

    def _told_apart(self, milestone: Milestone, range_: Range) -> Iterator[Piece]:
        wanted = [(WRITER_HEADER, writer_of(milestone))]
        for partition, messages in range_.pieces():
            yield self._piece(partition, [one for one in messages if one.headers() == wanted])

    def _piece(self, partition: int, messages: list[Message], proved: bool = False) -> Piece:
        """Return the live rows among the records; tombstones are below the horizon. `proved`: the digest will
        be compared before any row is used."""
        values = list(map(_value, messages))
        if None in values:
            messages = [message for message in messages if message.value() is not None]
            values = list(map(_value, messages))
        keys = list(map(_key, messages))
        if not proved or None in keys:
            self._require_rows(messages, keys, values)
        return Piece(partition, keys, values, _offsets(messages))

    def _require_rows(self, messages: list[Message], keys: list[bytes | None], values: list[bytes]) -> None:
        key_header, value_header, header_bytes = self._key_header, self._value_header, HEADER_BYTES
        for at, (key, value) in enumerate(zip(keys, values, strict=True)):
            known = value[:header_bytes] == value_header or is_confluent(value)
            if key is None or key[:header_bytes] != key_header or not known:
                message = messages[at]
                raise DivergenceError(
                    f"{message.topic()}/{message.partition()}@{message.offset()} is no row of this job: use the "
                    "job file that the driver runs with, or find out which other program writes to this topic"
                )


def _offsets(messages: list[Message]) -> Sequence[int]:
    if not messages:
        return []
    first, last = messages[0].offset(), messages[-1].offset()
    # Offsets only grow: as many numbers as records leave no gap.
    return range(first, last + 1) if last - first + 1 == len(messages) else list(map(_offset, messages))
