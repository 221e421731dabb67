"""Replay of dead letters to their source topic, each exactly once even after crashes. A Kafka transaction holds
the event and the letter's mark. A second replay fences the first, then reads the marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.kafka.client import TIMEOUT_S, explain, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TRANSACTION_TIMEOUT_MS
from cutwater.core.driver.rejected_events import EventPosition, Letter
from cutwater.core.errors import UnavailableError
from cutwater.core.generations.source_topics import copied_region
from cutwater.core.protocol import topics

HEADER = "cutwater-replay-of"
"""Header of a replayed event with its first place: topic/partition/offset."""

BATCH_LETTERS_MAX = 200
BATCH_BYTES_MAX = 16 * 1024 * 1024


class Replayer:
    """Replay of a job's dead letters. Fences any other process that replays them. `source`: the job's own
    source topic."""

    def __init__(self, cluster: Cluster, job: str, source: str, now_ms: Callable[[], int]) -> None:
        self._source = source
        self._topic = topics.dead_letters(job)
        self._now_ms = now_ms
        self._consumer = make_consumer(cluster)
        self._codec = protocol_codec("dead_letter")
        self._producer = cluster.client(
            Producer,
            {
                "transactional.id": topics.replay_id(job),
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.max.bytes": topics.LISTED_BYTES_MAX,
                "compression.type": "lz4",
            },
        )
        self._call("starting the replay", lambda: self._producer.init_transactions(TIMEOUT_S))

    def replay(
        self, letters: Sequence[Letter], report: Callable[[int], None] = lambda _: None
    ) -> dict[EventPosition, EventPosition]:
        """Replay the events; return their new places by old place. `report`: receives the running count. Read
        the letters after creating this object. Raises FencedError if another process has taken over,
        UnavailableError if the broker does not answer; replayed letters are marked in any case."""
        gone: dict[EventPosition, EventPosition] = {}
        for batch in batches(letters):
            gone |= self._call("replaying dead letters", partial(self._transaction, batch))
            report(len(gone))
        return gone

    def close(self) -> None:
        self._consumer.close()

    def _call(self, doing: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except KafkaException as error:
            raise explain(error, doing) from None

    def _transaction(self, batch: Sequence[Letter]) -> dict[EventPosition, EventPosition]:
        # In the order of the events, not of the list.
        records = sorted(self._records(batch), key=lambda one: one[0].event)
        self._producer.begin_transaction()
        try:
            gone = self._produce(records)
            at_ms = self._now_ms()
            for letter, record in records:
                mark = {**gone[letter.event]._asdict(), "at_ms": at_ms}
                value = self._codec.encode({**self._codec.decode(record.value()), "replayed": mark})
                at = {"partition": letter.at[0], "headers": record.headers() or []}
                self._producer.produce(self._topic, key=record.key(), value=value, **at)
        except BaseException:
            self._producer.abort_transaction(TIMEOUT_S)
            raise
        self._producer.commit_transaction(TIMEOUT_S)
        return gone

    def _produce(self, records: Sequence[tuple[Letter, Message]]) -> dict[EventPosition, EventPosition]:
        gone: dict[EventPosition, EventPosition] = {}
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message, letter: Letter) -> None:
            if error is not None:
                failures.append(error)
            else:
                gone[letter.event] = EventPosition(message.topic(), message.partition(), message.offset())

        for letter, record in records:
            value = self._codec.decode(record.value())
            headers = [(one["key"], one["value"]) for one in value["event_headers"]]
            self._producer.produce(
                self._back_to(letter.event.topic),
                key=value["event_key"],
                value=value["event_value"],
                # The same partition: the partitioner is unknown, and a key's events must stay together.
                partition=letter.event.partition,
                headers=[*headers, (HEADER, str(letter.event).encode())],
                on_delivery=lambda error, message, letter=letter: delivered(error, message, letter),
            )
        self._producer.flush(TIMEOUT_S)
        if failures:
            raise KafkaException(failures[0])
        if len(gone) != len(records):
            raise UnavailableError(f"{len(records) - len(gone)} events were not acknowledged in {TIMEOUT_S:.0f} s")
        return gone

    def _back_to(self, topic: str) -> str:
        """Return the topic to replay to: only the mirror writes to a copy, so this region's source instead."""
        return topic if copied_region(self._source, topic) is None else self._source

    def _records(self, batch: Sequence[Letter]) -> Iterator[tuple[Letter, Message]]:
        for partition, group in groupby(sorted(batch, key=lambda one: one.at), key=lambda one: one.at[0]):
            wanted = {one.at[1]: one for one in group}
            first, last = min(wanted), max(wanted)
            for message in read_range(self._consumer, self._topic, partition, first, last + 1):
                letter = wanted.pop(message.offset(), None)
                if letter:
                    yield letter, message
            if wanted:
                raise UnavailableError(
                    f"{self._topic}/{partition}@{min(wanted)} was replaced in the meantime; replay again"
                )


def batches(letters: Sequence[Letter]) -> Iterator[list[Letter]]:
    """Yield letters in the order of their events, in batches for one transaction."""
    batch: list[Letter] = []
    size = 0
    for letter in sorted(letters, key=lambda one: one.event):
        more = letter.value_bytes or 0
        if batch and (len(batch) == BATCH_LETTERS_MAX or size + more > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(letter)
        size += more
    if batch:
        yield batch
