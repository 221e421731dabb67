"""Writes rows of a snapshot into the copy of a changelog, and then its positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.hashing import key_hash
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.topic_ids import Identity
from cutwater.adapters.kafka.writers.copy_writer import Copies, CopyingWriter, CopyRecord, Headers
from cutwater.adapters.kafka.writers.transactional_writer import Batch
from cutwater.core.errors import UsageError
from cutwater.core.job.job import PLAIN_KEY_SCHEMA
from cutwater.core.job.shards import ShardMap
from cutwater.core.mirror.copy_progress import OriginPartition, initial_position, require_alone, seeded
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, Writer
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.mirror_records import Mirrored
from cutwater.core.protocol.records import Milestone
from cutwater.views.store.key_layout import Window

RECORDS = 8_000
BYTES = 16 << 20
"""Rows and bytes that are buffered before a write."""


class Seed(NamedTuple):
    """The replacement of the origin's log below a milestone's cut."""

    topic: str
    """The topic's name, in the origin and here."""
    identity: Identity
    """The origin's topic."""
    milestone: Milestone
    cuts: Mapping[int, int]
    """The offsets from which each partition is copied."""


class SnapshotRows:
    """Writes rows to the partitions of their keys' shards; the last transaction writes the positions."""

    def __init__(
        self,
        writer: CopyingWriter,
        ends: Offsets,
        job: str,
        region: str,
        shards: int,
        seed: Seed,
        now_ms: Callable[[], int],
    ) -> None:
        """`writer`: the only writer here. `shards`: the job's. Raises UsageError if the topic has records."""
        self._job, self._region, self._seed, self._now_ms = job, region, seed, now_ms
        self._writer, self._ends = writer, ends
        self._keys = Codec(PLAIN_KEY_SCHEMA)
        self._shards = ShardMap(shards, seed.identity.partitions)
        said = Writer.of_snapshot(seed.milestone.generation, seed.milestone.epoch)
        self._headers: Headers = [(WRITER_HEADER, said.header)]
        self._bases = self._ends.topic_ends(seed.topic, seed.identity.partitions)
        """The offset here of the next row."""
        if any(self._bases.values()):
            raise UsageError(
                f"another program wrote into {seed.topic} after it was created (no mirror of this version does). "
                "Stop that program and run this again"
            )
        self._local = dict(self._bases)
        """The offset after the last row."""
        self._records, self._size = dict.fromkeys(self._bases, 0), dict.fromkeys(self._bases, 0)
        self._held: dict[int, list[CopyRecord]] = {}
        self._held_rows = self._held_bytes = 0

    def take(self, window: Window, value: bytes) -> int:
        """Add a row; return the number of rows written."""
        key = self._keys.encode({"key": window.key, "window_start": window.start_ms, "window_end": window.end_ms})
        partition, size = self._shards.partition(self._shards.shard(key_hash(window.key))), len(key) + len(value)
        self._held.setdefault(partition, []).append(CopyRecord(key, value, self._headers, 0))
        self._records[partition] += 1
        self._size[partition] += size
        self._held_rows += 1
        self._held_bytes += size
        return self._write() if self._held_rows >= RECORDS or self._held_bytes >= BYTES else 0

    def finish(self) -> int:
        """Write the remaining rows and every position; return the number of rows written."""
        return self._write(last=True)

    def _write(self, last: bool = False) -> int:
        copies = [Copies(self._seed.topic, one, rows) for one, rows in self._held.items()]
        if copies or last:
            self._writer.copy(copies, partial(self._proved, list(self._bases) if last else [], copies))
        for one in copies:
            self._bases[one.partition] = self._local[one.partition] + 1  # the transaction's marker
        written, self._held_rows, self._held_bytes = self._held_rows, 0, 0
        self._held.clear()
        return written

    def _proved(self, positions: list[int], copies: list[Copies]) -> list[Batch]:
        places = {one.partition: TopicPartition(one.topic, one.partition) for one in copies}
        ends = self._ends.written_ends(list(places.values()))
        for one in copies:
            place = places[one.partition]
            self._local[one.partition] = self._bases[one.partition] + len(one.records)
            require_alone(*place, self._local[one.partition], ends[place])
        records = [
            {"key": one.key, "value": protocol_records.encode(one)} for one in map(self._position, positions)
        ]
        return [Batch(mirror_records.positions(self._job), 0, records)] if records else []

    def _position(self, partition: int) -> Mirrored:
        seed, local = self._seed, self._local[partition]
        place = OriginPartition(seed.topic, partition, *seed.identity)
        at = initial_position(self._job, self._region, place, seed.cuts[partition], local, self._now_ms())
        return seeded(at, self._records[partition], self._size[partition], local, seed.milestone.written_ms)
