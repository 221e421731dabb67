"""Record batches as brokers keep them, to records without message objects: by aiokafka's compiled parser.

Its `record` package is no public interface: requirements.lock pins it, and tests/services/test_fetching.py
holds it to what is needed here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.memory_records import MemoryRecords

from cutwater.core.errors import UnavailableError


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


class Chunk(NamedTuple):
    """Batches of one partition that follow one another, not decompressed yet."""

    first: int
    """The offset that was asked for; a batch may begin below it."""
    following: int
    """Every record below this offset has come: compaction and transactions leave gaps."""
    batches: Sequence[Any]
    size: int
    """Bytes as stored, of all together."""


def chunk(place: str, raw: bytes, first: int, aborted: Iterable[tuple[int, int]] | None = None) -> Chunk:
    """What a reader of committed records may see of a broker's answer.

    `aborted`: producer and first offset of each aborted transaction in it. Raises UnavailableError where a
    checksum says that a batch is damaged.
    """
    memory, seen, following = MemoryRecords(raw), [], first
    ahead, aborting = deque(sorted(aborted or (), key=lambda one: one[1])), set()
    while memory.has_next():
        batch = memory.next_batch()
        if not batch.validate_crc():
            raise UnavailableError(
                f"{place}: the checksum of the batch at offset {batch.base_offset} is wrong; it is asked for "
                "again. Where that goes on, look at the disks of the partition's brokers"
            )
        while ahead and ahead[0][1] <= batch.base_offset:
            aborting.add(ahead.popleft()[0])
        if batch.is_control_batch:
            if ControlRecord.parse(next(batch).key) == ABORT_MARKER:
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            seen.append(batch)
        following = batch.next_offset
    return Chunk(first, following, seen, len(raw))


def split(one: Chunk, offsets: int) -> tuple[Chunk, Chunk | None]:
    """The first batches, of at least so many offsets, and the rest. Records are objects: few should be at hand."""
    for count, batch in enumerate(one.batches[:-1], 1):
        following = batch.next_offset
        if following - one.first >= offsets:
            size = one.size * count // len(one.batches)
            head = Chunk(one.first, following, one.batches[:count], size)
            return head, one._replace(first=following, batches=one.batches[count:], size=one.size - size)
    return one, None


def records(one: Chunk) -> list[Record]:
    """The records, from `first` on."""
    found: list[Record] = []
    for batch in one.batches:
        # Only the first batch can begin below.
        inside = batch.base_offset >= one.first
        found += batch if inside else (record for record in batch if record.offset >= one.first)
    return found
