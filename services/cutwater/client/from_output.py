"""Complete milestones from the output topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from confluent_kafka import Consumer, Message

from cutwater.adapters.kafka.client import bounds, partition_count, search_backwards
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.long_lived_consumer import LongLivedConsumer
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.client.broker_outage import Outage
from cutwater.client.decoding import Decoder, OutputDecoder
from cutwater.client.values import Change, CommittedMilestone
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.output.milestone_assembly import Grouping
from cutwater.core.output.position import End
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Token

POLL_S = 0.2
BATCH = 1_000
AHEAD_ROWS = 100_000
"""Above this number of held rows, or the caller's bound, partitions that are ahead of others are paused."""


def from_output(
    job: Job, cluster: Cluster, after: Token | None, stop: Callable[[], bool], idle_s: float | None, rows_max: int
) -> Iterator[CommittedMilestone]:
    """See `committed`."""
    topic = topics.output(job.name)
    partitions = partition_count(cluster, topic)
    decoder: Decoder = OutputDecoder(job, cluster)
    outage = Outage(topic)
    read = LongLivedConsumer(
        cluster, topic, error_cb=outage.on_error, **QUIET
    )  # the caller may take long over a milestone
    try:
        starts = [_start(read.consumer, topic, number, decoder, after) for number in range(partitions)]
        cut_off = [number for number, offset in enumerate(starts) if after is None and offset > 0]
        read.begin(dict(enumerate(starts)))
        reading = _Reading(read, partitions, decoder, min(AHEAD_ROWS, rows_max))
        grouping = Grouping(partitions, cut_off, after.sequence if after else 0)
        waited = time.monotonic()
        while not stop() and (idle_s is None or time.monotonic() - waited < idle_s):
            reading.read_into(grouping)
            outage.check(read.consumer)
            while found := grouping.next_complete():
                yield _milestone(*found, decoder)
                waited = time.monotonic()
            if grouping.next_rows > rows_max:
                raise UsageError(
                    f"{topic}: a milestone has more than {rows_max:,} rows: pass a larger rows_max, or read "
                    "source='changelog' with a store of your own"
                )
    finally:
        read.close()


class _Reading:
    def __init__(self, read: LongLivedConsumer, partitions: int, decoder: Decoder, ahead_rows: int) -> None:
        """`ahead_rows`: above this number of held rows, partitions that are ahead are paused."""
        self._ahead_rows = ahead_rows
        self._read = read
        self._decoder = decoder
        self._partitions = range(partitions)

    def read_into(self, grouping: Grouping) -> None:
        for message in self._read.read(POLL_S):
            if message.key() is None:
                grouping.end(message.partition(), self._decoder.end(message.value()))
            else:
                grouping.row(message.partition(), message.value())
        self._hold_back(grouping)

    def _hold_back(self, grouping: Grouping) -> None:
        # Rows of a partition that is far ahead cannot be complete yet and would fill the memory.
        full = grouping.held > self._ahead_rows
        self._read.hold({number for number in self._partitions if full and grouping.ahead(number)})


def _milestone(end: End, rows: list[bytes], decoder: Decoder) -> CommittedMilestone:
    changes: dict[tuple[str, int, int], Change] = {}
    for row in rows:
        change = decoder.change(row)
        changes[change.key, change.window_start_ms, change.window_end_ms] = change
    token = Token(end.generation, end.sequence)
    return CommittedMilestone(
        token, end.first_sequence, end.watermark_ms, end.committed_ms, tuple(changes.values()), end.rewinds_to
    )


def _start(consumer: Consumer, topic: str, partition: int, decoder: Decoder, after: Token | None) -> int:
    """Return the offset after the end marker of `after`; without a token the oldest offset. Raise UsageError if
    the topic does not contain the token."""
    if after is None:
        return bounds(consumer, topic, partition)[0]

    def find(messages: Iterator[Message]) -> int | None:
        for message in messages:
            if message.key() is not None:
                continue
            end = decoder.end(message.value())
            if end.sequence > after.sequence:
                return None
            if end.sequence == after.sequence and end.last:
                if end.generation != after.generation:
                    raise UsageError(f"{topic}: sequence {after.sequence} is of {end.generation}, not {after}")
                return int(message.offset()) + 1
        return None

    found = search_backwards(consumer, topic, partition, find, step=BATCH)
    if found is None:
        raise UsageError(
            f"{topic}/{partition} does not hold {after}: it is older than the retention, was published together "
            "with others, or is not published yet. Start without a token, or query the API for the whole state."
        )
    return found
