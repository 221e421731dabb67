"""Record batches as brokers keep them, to records without message objects: by aiokafka's compiled parser.

Its `record` and `codec` are no public interface: requirements.lock pins them, and
tests/broker/adapters/fetch/test_fetcher.py holds it to what is needed here.
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
from cutwater.core.protocol.leader_epochs import Led

_HEAD = Struct(">qiib")
"""Of every batch: the first offset, how many bytes follow the length, which leader wrote it, and the format."""
_LOG_OVERHEAD = 12
"""Bytes of first offset and length."""
_COUNT = Struct(">57xI")
"""In a batch: how many records follow it, compressed or not."""
_FORMAT = 2
"""Of messages, since Kafka 0.11; the only one that is read."""
_DECOMPRESS = {0: bytes, 1: codec.gzip_decode, 2: codec.snappy_decode, 3: codec.lz4_decode, 4: codec.zstd_decode}


class Record(Protocol):
    """One record, as the parser makes it."""

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
    """One batch, not decompressed yet."""

    parsed: Any
    raw: memoryview


class Section(NamedTuple):
    """The records of one batch, decompressed, for who parses them without aiokafka."""

    base_offset: int
    records: int
    """How many."""
    data: bytes


class Chunk(NamedTuple):
    """Batches of one partition that follow one another, not decompressed yet."""

    first: int
    """The offset that was asked for; a batch may begin below it."""
    following: int
    """Every record below this offset has come: compaction and transactions leave gaps."""
    batches: Sequence[Batch]
    size: int
    """Bytes as stored, of all together."""
    place: str
    """Topic and partition, for people."""
    end: int = -1
    """Where the log ended when this was answered, open transactions included; -1 where it is not known."""
    leaders: tuple[Led, ...] = ()
    """Who wrote the batches that have come, those of aborted transactions too; empty where none has."""


def chunk(
    place: str, raw: bytes, first: int, aborted: Iterable[tuple[int, int]] | None = None, end: int = -1
) -> Chunk:
    """What a reader of committed records may see of a broker's answer.

    `aborted`: producer and first offset of each aborted transaction in it; `end`: as it said. Raises
    UnavailableError where the answer is damaged, as far as it tells.
    """
    seen, following, leaders = [], first, list[Led]()
    ahead, aborting = deque(sorted(aborted or (), key=lambda one: one[1])), set()
    for batch, stored, epoch in _sound(place, raw, first):
        while ahead and ahead[0][1] <= batch.base_offset:
            aborting.add(ahead.popleft()[0])
        if batch.is_control_batch:
            marker = next(batch, None)  # compaction takes the last one of a producer out, and leaves its batch
            if marker is not None and ControlRecord.parse(marker.key) == ABORT_MARKER:
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            seen.append(Batch(batch, stored))
        following = batch.next_offset
        if not leaders or leaders[-1].epoch != epoch:
            leaders.append(Led(epoch, batch.base_offset))
    return Chunk(first, following, seen, len(raw), place, end, tuple(leaders))


def _sound(place: str, raw: bytes, first: int) -> Iterator[tuple[Any, memoryview, int]]:
    """Each whole batch, parsed and as it is stored, and who wrote it; the last one may be cut off.

    Raises UnavailableError.

    The checksum leaves out a batch's first offset, length and format. They are held to what a broker answers: the
    first batch is the one with `first` in it or behind it, and none begins below the end of the one before.
    """
    at, following, bytes_ = 0, first, memoryview(raw)
    try:
        memory = MemoryRecords(raw)
        while memory.has_next():
            began, offset, length, epoch, written = at, *_HEAD.unpack_from(raw, at)
            if written != _FORMAT:  # the parser of older ones takes what is damaged for sizes
                raise _damaged(place, f"the batch at offset {offset} is of format {written}, not {_FORMAT}")
            at += _LOG_OVERHEAD + length
            batch = memory.next_batch()
            if not batch.validate_crc():
                raise _damaged(place, f"the checksum of the batch at offset {offset} is wrong")
            if batch.next_offset <= following or (began and offset < following):
                raise _damaged(place, f"the batch at offset {offset} is not one that comes at {following}")
            yield batch, bytes_[began:at], epoch
            following = batch.next_offset
    except ClientError as error:
        raise _damaged(place, f"the batch at byte {at} of an answer cannot be read ({error!r})") from None
    if raw and not at:  # since version 3 of a fetch no broker cuts off the first batch of a partition
        raise _damaged(place, f"an answer of {len(raw)} bytes holds no whole batch")


def _damaged(place: str, what: str) -> UnavailableError:
    return UnavailableError(
        f"{place}: {what}; it is asked for again. Where that goes on, look at the disks of the partition's brokers"
    )


def split(one: Chunk, offsets: int, stored: float = inf) -> tuple[Chunk, Chunk | None]:
    """The first batches, of at least so many offsets or bytes, and the rest.

    Records are objects: few should be at hand.
    """
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
    """The records, from `first` on. Raises ProtocolError where a batch cannot be decompressed."""
    found: list[Record] = []
    for batch, _ in one.batches:
        # Only the first batch can begin below.
        inside = batch.base_offset >= one.first
        with _decompressing(one, batch):
            found += batch if inside else (record for record in batch if record.offset >= one.first)
    return found


def sections(one: Chunk) -> list[Section] | None:
    """The same, not parsed, and with what lies below `first`; None where only `records` can tell.

    Raises ProtocolError as `records` does.
    """
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
    """Each codec has errors of its own. The checksum was right, so asking again would bring the same bytes."""
    try:
        yield
    except Exception as error:
        raise ProtocolError(
            f"{one.place}: the batch at offset {batch.base_offset} cannot be decompressed ({error!r}), though its "
            "checksum is right: it was written so. Find out who writes there, and with which client"
        ) from None
