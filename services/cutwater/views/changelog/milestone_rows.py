"""Every row that a milestone changed, proved, straight from the changelog: what needs no materialised state."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from operator import methodcaller

from confluent_kafka import Message

from cutwater.adapters.avro.codec import HEADER_BYTES, Codec, crc64
from cutwater.adapters.hashing import rows_hash
from cutwater.core.driver.row_proof import WRITER_HEADER
from cutwater.core.errors import DivergenceError
from cutwater.core.events.formats import is_confluent
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.row_digest import fold
from cutwater.core.state.backlog import Jump, Step, fresh
from cutwater.views.changelog.proof import Below, counted_once, prove, require_schema, require_whole, writer_of
from cutwater.views.changelog.range_reader import Range, Ranges
from cutwater.views.changelog.record_reader import header_of, place_of
from cutwater.views.changelog.row_batch import Piece, pieces_of

_key, _value, _offset = methodcaller("key"), methodcaller("value"), methodcaller("offset")

PART_ROWS = 100_000
PART_BYTES = 32 << 20
"""Rows, and bytes of their keys and values, held in memory. A milestone of more is read twice: to be proved, and
then as a stream."""


class Updates:
    """Every row of the milestone's own epoch; of several milestones as one, every row between their cuts."""

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
        self._fingerprint = crc64(job.state_schema).hex()

    def rows(self, plan: Step | Jump, since: Cut) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of every row; see `pieces`."""
        for piece in self.pieces(plan, since):
            yield from piece.rows()

    def pieces(self, plan: Step | Jump, since: Cut, progress: Cut | None = None) -> Generator[Piece]:
        """The rows between `since`, the cut of the milestone before, and the plan's milestone.

        `progress`: how far an earlier reading of it came, where it was broken off after some rows. Raises
        DivergenceError where the changelog is not what the milestone proves; Overtaken, perhaps after some rows,
        where compaction has taken values: they go on with a later milestone.
        """
        milestone, first = plan.to.milestone, since if progress is None else progress
        require_schema(self._ranges.topic, milestone, self._fingerprint)
        if isinstance(plan, Jump):
            yield from self._newer(milestone, since, first)
        elif (own := self._own(milestone, since)) is not None:
            yield from own
        else:
            # Parts of it are seen before the last row is read: so prove it first.
            self._prove(milestone, since)
            yield from self._stream(milestone, first)

    def _own(self, milestone: Milestone, since: Cut) -> list[Piece] | None:
        """All rows, proved; None where they are too many or too large for the memory."""
        if milestone.rows > self._part_rows:
            return None
        range_ = self._ranges.between(since, milestone)
        # With as many records as rows each must be one, and the digest proves it: to look at the headers would
        # take as long as everything else together.
        exact = range_.records_max == milestone.rows
        pieces = self._as_they_come(range_) if exact else self._last(milestone, range_)
        if pieces is not None:
            require_whole(milestone, {}, self._now_ms())
            digest = fold(rows_hash(piece.keys, piece.values) for piece in pieces)
            prove(self._ranges.topic, milestone, sum(map(len, pieces)), digest)
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
        """The milestone's rows among others: a task that ran twice wrote a row twice, and the last one counts."""
        last: dict[bytes, tuple[int, int, bytes, bytes]] = {}
        size = 0
        for piece in self._told_apart(milestone, range_):
            for key, value, offset in zip(piece.keys, piece.values, piece.offsets, strict=True):
                last[key] = (piece.partition, offset, key, value)
            size += piece.size
            if size > self._part_bytes:
                return None
            if len(last) > milestone.rows:
                break  # proved wrong already
        return list(pieces_of(last.values()))

    def _prove(self, milestone: Milestone, since: Cut) -> None:
        def read() -> Iterator[tuple[bytes, bytes]]:
            for piece in self._told_apart(milestone, self._ranges.between(since, milestone)):
                yield from piece.rows()

        rows, digest = counted_once(read, milestone.rows)
        require_whole(milestone, {}, self._now_ms())
        prove(self._ranges.topic, milestone, rows, digest)

    def _stream(self, milestone: Milestone, first: Cut) -> Iterator[Piece]:
        """The rows that are proved, once more; every one of a piece was there when it was read.

        Asked per piece, not at the end: a part must not go out with rows missing that compaction has taken since
        the proof. What went out before stays right, and the rest comes with a later milestone.
        """
        for piece in self._told_apart(milestone, self._ranges.between(first, milestone)):
            require_whole(milestone, {}, self._now_ms())
            yield piece
        require_whole(milestone, {}, self._now_ms())

    def _newer(self, milestone: Milestone, since: Cut, first: Cut) -> Iterator[Piece]:
        """Of a key several rows may come: they are in order, and a reader keeps the last."""
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
        """All rows that lead to the milestone, where they are few; None for many, which are read once more.

        Nothing of them goes out before it is known that the milestone's own rows are there, and nobody else's.
        """
        kept: list[Piece] = []
        few = self._jumped(milestone, since).records_max <= self._part_rows
        own, below = writer_of(milestone), Below(milestone)

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
        prove(self._ranges.topic, milestone, rows, digest)
        return kept if few else None

    def _jumped(self, milestone: Milestone, since: Cut) -> Range:
        return self._ranges.between(since, milestone, look_above=not fresh(milestone, self._now_ms()))

    def _told_apart(self, milestone: Milestone, range_: Range) -> Iterator[Piece]:
        """The rows with the milestone's own header."""
        wanted = [(WRITER_HEADER, writer_of(milestone))]
        for partition, messages in range_.pieces():
            yield self._piece(partition, [one for one in messages if one.headers() == wanted])

    def _piece(self, partition: int, messages: list[Message], proved: bool = False) -> Piece:
        """The rows among the records; a tombstone is none: its window is below the horizon.

        `proved`: their digest will be compared before anybody sees them.
        """
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
                    "job file that the driver runs with, or find out who else writes there"
                )


def _offsets(messages: list[Message]) -> Sequence[int]:
    """Of each record; nearly always they follow one another."""
    if not messages:
        return []
    first, last = messages[0].offset(), messages[-1].offset()
    # Offsets only grow: as many numbers as records leave no gap.
    return range(first, last + 1) if last - first + 1 == len(messages) else list(map(_offset, messages))
