"""The records of one row on the logs that hold some of its history: changelogs and the output."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import KafkaException, Message

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.hashing import key_hash
from cutwater.adapters.kafka.admin import describe_topics
from cutwater.adapters.kafka.client import bounds, explain, make_consumer
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.client.decoding import OutputDecoder
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.job import PLAIN_KEY_SCHEMA, TOMBSTONE, Job
from cutwater.core.past.row_accounts import OutputBatch, RowRecord
from cutwater.core.past.row_history import LoggedValue, Values
from cutwater.core.protocol import topics
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.topics import MIN_COMPACTION_LAG_MS
from cutwater.core.state.backlog import MARGIN_MS
from cutwater.views.changelog.range_consumer import RangeConsumer
from cutwater.views.changelog.record_reader import header_of
from cutwater.views.query.presenter import plain
from cutwater.views.store.key_layout import Window

STALL_S = 20.0
"""How long a read waits for the next record before it fails."""
TRIES = 3
"""Reads of a log that is compacted meanwhile."""
RECORDS_MAX = 20_000_000
LAG_CONFIG = "min.compaction.lag.ms"
Count = Callable[[str, int], None]
"""Called with a topic, and how many records of it have been read."""


class RowOfKey(NamedTuple):
    """The row that is looked for."""

    window: Window
    panes: tuple[int, ...]
    """The starts of the panes that it is merged from; its own start if it is no window of panes."""

    @staticmethod
    def of(job: Job, key: str, start_ms: int) -> RowOfKey:
        """Raises UsageError if no window of the job starts then."""
        size_ms, pane_ms = job.window.size_ms, job.row_windows.size_ms
        if not job.attached and start_ms % job.window.slide_ms:
            before = start_ms - start_ms % job.window.slide_ms
            raise UsageError(
                f"no window of {job.name} starts at {start_ms} ms: windows start every {job.window.slide_ms} ms, "
                f"the one before at {before}"
            )
        panes = range(start_ms, start_ms + size_ms, pane_ms) if job.overlap_ms else (start_ms,)
        return RowOfKey(Window(key, start_ms, start_ms + size_ms), tuple(panes))

    def partition(self, job: Job, partitions: int) -> int:
        """Return its partition of a topic with this number of partitions."""
        return job.shards.shard(key_hash(self.window.key)) * partitions // job.shards.shards

    def changelog_keys(self, job: Job) -> Mapping[bytes, int]:
        """Return the starts of its panes by their keys on a changelog."""
        codec, size_ms = Codec(PLAIN_KEY_SCHEMA), job.row_windows.size_ms
        keys = ({"key": self.window.key, "window_start": at, "window_end": at + size_ms} for at in self.panes)
        return {codec.encode(key): at for key, at in zip(keys, self.panes, strict=True)}


class ChangelogPart(NamedTuple):
    """What a changelog holds of the row."""

    topic: str
    """With the partition."""
    records: list[RowRecord]
    complete: bool
    """Whether no records were deleted at the start of the log."""
    young_ms: int
    """Compaction has not touched records written after it."""


class RowLogs:
    """Reads one row's records. `records_max`: the most records that are read of one partition."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        row: RowOfKey,
        now_ms: Callable[[], int],
        records_max: int = RECORDS_MAX,
        count: Count = lambda _topic, _records: None,
    ) -> None:
        self._cluster, self._job, self._row, self._now_ms = cluster, job, row, now_ms
        self._records_max, self._count = records_max, count

    def changelog(self, generation: Generation, partitions: int) -> ChangelogPart | None:
        """Return what the generation's changelog holds; None if there is no such topic any more."""
        topic = topics.changelog(self._job.name, generation)
        described = describe_topics(self._cluster, [topic])
        if topic not in described:
            return None
        lag_ms = min(int(described[topic].config.get(LAG_CONFIG, MIN_COMPACTION_LAG_MS)), MIN_COMPACTION_LAG_MS)
        partition = self._row.partition(self._job, partitions)
        for _ in range(TRIES):
            # Taken first: what compaction removes during the read was older.
            young_ms = self._now_ms() - max(0, lag_ms - MARGIN_MS)
            low, records = self._changelog_records(topic, partition)
            if self._are_still_there(topic, partition, _first_old(records, young_ms)):
                return ChangelogPart(f"{topic}/{partition}", records, low == 0, young_ms)
        raise UnavailableError(f"{topic}/{partition} is being compacted: try again in a moment")

    def _changelog_records(self, topic: str, partition: int) -> tuple[int, list[RowRecord]]:
        wanted, found = self._row.changelog_keys(self._job), list[RowRecord]()
        low, batches = self._partition(topic, partition)
        for batch in batches:
            for one in batch:
                pane = wanted.get(one.key())
                if pane is not None:
                    writer = Writer.of_header(header_of(one))
                    found.append(RowRecord(one.offset(), pane, one.value(), one.timestamp()[1], writer))
        return low, found

    def _are_still_there(self, topic: str, partition: int, offsets: Sequence[int]) -> bool:
        """Return whether these records are still there. A record that compaction removes takes all earlier ones of
        its key along: if a key's first one is there, none after it was removed while the log was read."""
        if not offsets:
            return True
        with closing(RangeConsumer(self._cluster, topic)) as log:
            return all(_is_there(log, topic, partition, one) for one in offsets)

    def output(self, partitions: int) -> tuple[list[OutputBatch], bool]:
        """Return the end markers of the row's partition, with the row among the rows before each, and whether the
        retention has deleted records before them."""
        topic = topics.output(self._job.name)
        partition = self._row.partition(self._job, partitions)
        # With the cluster: the rows of generations with another job file are shown as this one says.
        decoder, batches = OutputDecoder(self._job, self._cluster), list[OutputBatch]()
        key, row = self._row.window.key.encode(), None
        low, read = self._partition(topic, partition)
        for batch in read:
            for one in batch:
                if one.key() is None:
                    end = decoder.end(one.value())
                    if end.last:
                        batches.append(OutputBatch(end.first_sequence, end.sequence, row))
                        row = None
                elif one.key() == key:
                    row = self._output_row(decoder, one) or row
        return batches, low > 0

    def _output_row(self, decoder: OutputDecoder, message: Message) -> LoggedValue | None:
        change = decoder.change(message.value())
        window = self._row.window  # of a generation with longer windows another one may begin with it
        if (change.window_start_ms, change.window_end_ms) != (window.start_ms, window.end_ms):
            return None
        shown: Values = {name: plain(value) for name, value in change.values.items()}
        place = f"{message.topic()}/{message.partition()}@{message.offset()}"
        return LoggedValue(0, None if change.kind == TOMBSTONE else shown, place)

    def _partition(self, topic: str, partition: int) -> tuple[int, Iterator[list[Message]]]:
        """Return the first kept offset, and the records up to the present end. Raises UsageError for too many."""
        with closing(make_consumer(self._cluster)) as consumer:
            low, high = bounds(consumer, topic, partition)
        if high - low > self._records_max:
            raise UsageError(
                f"{topic}/{partition} has up to {high - low:,} records, more than {self._records_max:,}: give a "
                f"larger --records-max (some {(high - low) // 200_000 + 1:,} s)"
            )
        return low, self._read(topic, partition, low, high)

    def _read(self, topic: str, partition: int, low: int, high: int) -> Iterator[list[Message]]:
        read = 0
        with closing(RangeConsumer(self._cluster, topic)) as log:
            for batch in _batches(log, topic, partition, low, high):
                yield batch
                read += len(batch)
                self._count(topic, read)


def _first_old(records: Iterable[RowRecord], young_ms: int) -> list[int]:
    """Return the offset of each pane's first record, if compaction may have seen it: each is a key of its own."""
    first: dict[int, RowRecord] = {}
    for one in records:
        first.setdefault(one.pane, one)
    return [one.offset for one in first.values() if one.written_ms <= young_ms]


def _is_there(log: RangeConsumer, topic: str, partition: int, offset: int) -> bool:
    for batch in _batches(log, topic, partition, offset, offset + 1):
        return bool(batch[0].offset() == offset)
    return False


def _batches(log: RangeConsumer, topic: str, partition: int, first: int, end: int) -> Iterator[list[Message]]:
    """Yield the records in [first, end), in log order. Raises UnavailableError if none arrives in time."""
    if first >= end:
        return
    try:
        log.start({partition: first})
        deadline = time.monotonic() + STALL_S
        while not log.has_read_to(partition, end):
            batch = [one for one in log.read().get(partition, ()) if one.offset() < end]
            if batch:
                yield batch
                deadline = time.monotonic() + STALL_S
            elif time.monotonic() > deadline:
                raise UnavailableError(f"{topic}/{partition}: no record arrived for {STALL_S:g} s below {end}")
    except KafkaException as error:
        raise explain(error, f"reading {topic}") from None
