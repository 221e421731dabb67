"""Record batches as stored by brokers, and their records without message objects, by aiokafka's compiled parser.

Its `record` and `codec` are not public interfaces: requirements.lock pins them, and
tests/broker/adapters/fetch/test_fetcher.py checks what is needed here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from struct import Struct
from typing import Any, NamedTuple, Protocol

from aiokafka import codec
from aiokafka.errors import KafkaError as ClientError
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.memory_records import MemoryRecords

from cutwater.core.errors import ProtocolError, UnavailableError
from cutwater.core.protocol.leader_epochs import LeaderStart

_HEAD = Struct(">qiib")
"""Head of every batch: first offset, bytes after the length, leader epoch, format."""
_LOG_OVERHEAD = 12
"""Bytes of first offset and length."""
_COUNT = Struct(">57xI")
"""The number of records in a batch, which follow it, compressed or not."""
_FORMAT = 2
"""Message format since Kafka 0.11, the only one supported."""
_DECOMPRESS = {0: bytes, 1: codec.gzip_decode, 2: codec.snappy_decode, 3: codec.lz4_decode, 4: codec.zstd_decode}


class Record(Protocol):
    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...

    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...


class Batch(NamedTuple):
    """One compressed batch."""

    parsed: Any
    raw: memoryview


class Section(NamedTuple):
    """The decompressed records of one batch, for a parser other than aiokafka's."""

    base_offset: int
    records: int
    data: bytes


class Chunk(NamedTuple):
    """Consecutive batches of one partition, not decompressed yet."""

    first: int
    """The requested offset; a batch may start below it."""
    following: int
    """Every record below this offset has arrived: compaction and transactions leave gaps."""
    batches: Sequence[Batch]
    size: int
    """Bytes as stored, of all batches."""
    place: str
    """Topic and partition, for messages."""
    end: int = -1
    """End of the log at the time of the answer, open transactions included; -1 if unknown."""
    leaders: tuple[LeaderStart, ...] = ()
    """Leaders that wrote the batches, those of aborted transactions too; empty without batches."""


def chunk(
    place: str, raw: bytes, first: int, aborted: Iterable[tuple[int, int]] | None = None, end: int = -1
) -> Chunk:
    """Return the committed batches of a broker's answer.

    `aborted`: producer and first offset of each aborted transaction in it; `end`: the log end in the answer.
    Raises UnavailableError if the answer is detectably damaged.
    """
    seen, following, leaders = [], first, list[LeaderStart]()
    ahead, aborting = deque(sorted(aborted or (), key=lambda one: one[1])), set()
    for batch, stored, epoch in _sound(place, raw, first):
        while ahead and ahead[0][1] <= batch.base_offset:
            aborting.add(ahead.popleft()[0])
        if batch.is_control_batch:
            marker = next(batch, None)  # compaction removes a producer's last marker, but keeps its batch
            if marker is not None and ControlRecord.parse(marker.key) == ABORT_MARKER:
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            seen.append(Batch(batch, stored))
        following = batch.next_offset
        if not leaders or leaders[-1].epoch != epoch:
            leaders.append(LeaderStart(epoch, batch.base_offset))
    return Chunk(first, following, seen, len(raw), place, end, tuple(leaders))


def _sound(place: str, raw: bytes, first: int) -> Iterator[tuple[Any, memoryview, int]]:
    """Yield each whole batch, parsed and as stored, with its leader epoch; the last batch may be truncated.

    Raises UnavailableError. The checksum does not cover a batch's first offset, length and format. So they are
    checked against the request: the first batch contains `first` or follows it, and none starts below the end of
    the previous one.
    """
    at, following, bytes_ = 0, first, memoryview(raw)
    try:
        memory = MemoryRecords(raw)
        while memory.has_next():
            began, offset, length, epoch, written = at, *_HEAD.unpack_from(raw, at)
            if written != _FORMAT:  # the parser of older formats would read damaged data as sizes
                raise _damaged(place, f"the batch at offset {offset} is of format {written}, not {_FORMAT}")
            at += _LOG_OVERHEAD + length
            batch = memory.next_batch()
            if not batch.validate_crc():
                raise _damaged(place, f"the checksum of the batch at offset {offset} is wrong")
            if batch.next_offset <= following or (began and offset < following):
                raise _damaged(place, f"the batch at offset {offset} does not follow offset {following}")
            yield batch, bytes_[began:at], epoch
            following = batch.next_offset
    except ClientError as error:
        raise _damaged(place, f"the batch at byte {at} of an answer cannot be read ({error!r})") from None
    if raw and not at:  # since version 3 of a fetch no broker truncates the first batch of a partition
        raise _damaged(place, f"an answer of {len(raw)} bytes holds no whole batch")


def _damaged(place: str, what: str) -> UnavailableError:
    return UnavailableError(
        f"{place}: {what}; it is requested again. If this repeats, check the disks of the partition's brokers"
    )


def split(one: Chunk, offsets: int, stored: float = inf) -> tuple[Chunk, Chunk | None]:
    """Split off batches with at least `offsets` offsets or `stored` bytes: few records should exist at a time."""
    bytes_ = 0
    for count, batch in enumerate(one.batches[:-1], 1):
        following = batch.parsed.next_offset
        bytes_ += len(batch.raw)
        if following - one.first >= offsets or bytes_ >= stored:
            size = one.size * count // len(one.batches)
            led = sum(leader.first < following for leader in one.leaders)
            head = Chunk(one.first, following, one.batches[:count], size, one.place, leaders=one.leaders[:led])
            rest = one._replace(first=following, batches=one.batches[count:], size=one.size - size)
            return head, rest._replace(leaders=one.leaders[max(led - 1, 0) :])
    return one, None


def records(one: Chunk) -> list[Record]:
    """Return the records from `first` on. Raises ProtocolError if a batch cannot be decompressed."""
    found: list[Record] = []
    for batch, _ in one.batches:
        # Only the first batch can start below.
        inside = batch.base_offset >= one.first
        with _decompressing(one, batch):
            found += batch if inside else (record for record in batch if record.offset >= one.first)
    return found


def sections(one: Chunk) -> list[Section] | None:
    """Return `records` unparsed, with those below `first`; None for an unknown compression. Raises alike."""
    found = []
    for batch, raw in one.batches:
        decompress = _DECOMPRESS.get(batch.compression_type)
        if decompress is None:
            return None
        with _decompressing(one, batch):
            found.append(Section(batch.base_offset, _COUNT.unpack_from(raw)[0], decompress(raw[_COUNT.size :])))
    return found


@contextmanager
def _decompressing(one: Chunk, batch: Any) -> Iterator[None]:
    # Each codec has its own errors. The checksum is right, so another request would return the same bytes.
    try:
        yield
    except Exception as error:
        raise ProtocolError(
            f"{one.place}: the batch at offset {batch.base_offset} cannot be decompressed ({error!r}), though its "
            "checksum is right: it was written so. Find out which client wrote it"
        ) from None
