"""Consumer, producer and admin client of the simulated log: what the services use of confluent-kafka, and no more.

Every call that would go over the network is a moment at which the process may be stalled or killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from cutwater.core import topics
from cutwater.core.restore import MARGIN_MS
from simulation.job import GENERATION, JOB
from simulation.log import Log, Outcome, Place, Record, Transaction
from simulation.log import Producer as Coordinated
from simulation.processes import Process

CHANGELOG = topics.changelog(JOB.name, GENERATION)
_EOF = KafkaError(KafkaError._PARTITION_EOF, "end of partition")


class SimCluster:
    """Stands for `cutwater.adapters.cluster.Cluster` in one process."""

    bootstrap = "simulated"
    security = SimpleNamespace(protocol="PLAINTEXT")

    def __init__(self, log: Log, process: Process) -> None:
        self._log = log
        self._process = process

    def librdkafka(self) -> dict[str, Any]:
        return {}

    def client(self, kind: Callable[..., Any], settings: dict[str, Any], **_options: Any) -> Any:
        if kind is Consumer:
            return SimConsumer(self._log, self._process, settings["isolation.level"] == "read_committed")
        if kind is Producer:
            return SimProducer(self._log, self._process, settings["transactional.id"])
        return SimAdmin(self._log, self._process)


class SimAdmin:
    def __init__(self, log: Log, process: Process) -> None:
        self._log = log
        self._process = process

    def list_offsets(
        self, asked: dict[TopicPartition, OffsetSpec], **_options: object
    ) -> dict[TopicPartition, Any]:
        self._process.pause()
        found = {}
        for place, spec in asked.items():
            first = isinstance(spec, type(OffsetSpec.earliest()))
            at = 0 if first else self._log.topics[place.topic][place.partition].end
            found[place] = SimpleNamespace(result=lambda _timeout, at=at: SimpleNamespace(offset=at))
        return found

    def list_topics(self, topic: str | None, timeout: float) -> Any:
        self._process.pause()
        return _described(self._log, topic)

    def describe_topics(self, asked: TopicCollection, **_options: object) -> dict[str, Future[Any]]:
        self._process.pause()
        found: dict[str, Future[Any]] = {name: Future() for name in asked.topic_names}
        for name, answer in found.items():
            if name in self._log.topics:
                answer.set_result(SimpleNamespace(name=name))
            else:
                answer.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return found

    def poll(self, timeout: float) -> int:
        return 0


def _described(log: Log, topic: str | None) -> Any:
    names = log.topics if topic is None else (topic,)
    return SimpleNamespace(
        topics={
            name: SimpleNamespace(error=None, partitions=dict.fromkeys(range(len(log.topics[name]))))
            for name in names
        }
    )


def _message(place: Place, offset: int, record: Record | None) -> Message:
    """A record, or the news that a partition's end was reached: the library's own class."""
    if record is None:
        return Message(topic=place[0], partition=place[1], offset=offset, error=_EOF)
    return Message(
        topic=place[0],
        partition=place[1],
        offset=offset,
        key=record.key,
        value=record.value,
        headers=record.headers,
        timestamp=(2, record.time_ms),
    )


class SimConsumer:
    def __init__(self, log: Log, process: Process, committed: bool) -> None:
        self._log = log
        self._process = process
        self._committed = committed
        self._positions: dict[Place, int] = {}
        self._told_end: set[Place] = set()
        self._paused: set[Place] = set()

    def assign(self, starts: Iterable[TopicPartition]) -> None:
        self._positions = {(one.topic, one.partition): one.offset for one in starts}
        self._told_end.clear()

    def unassign(self) -> None:
        self._positions = {}

    def pause(self, places: Iterable[TopicPartition]) -> None:
        self._paused |= {(one.topic, one.partition) for one in places}

    def resume(self, places: Iterable[TopicPartition]) -> None:
        self._paused -= {(one.topic, one.partition) for one in places}

    def close(self) -> None:
        self._positions = {}

    def list_topics(self, topic: str, timeout: float) -> Any:
        return _described(self._log, topic)

    def offsets_for_times(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self._process.pause()
        found = []
        for place in places:
            partition = self._log.topics[place.topic][place.partition]
            end = partition.stable_end if self._committed else partition.end
            found.append(
                TopicPartition(place.topic, place.partition, 0 if place.offset == OFFSET_BEGINNING else end)
            )
        return found

    def poll(self, timeout: float) -> Message | None:
        self._process.pause(self._has_more if timeout else None)
        slow = self._process.luck()
        places = list(self._positions)
        if slow % 13 == 0 and places and places[0][0] == CHANGELOG and self._just_grown(places[0]):
            # An end as it was a moment ago: something open held the last stable offset back.
            return _message(places[0], self._positions[places[0]], None)
        if len(places) > 1:
            turn = slow % len(places)
            places = places[turn:] + places[:turn]
            if slow % 5 == 0:
                places = places[:1]  # the fetches of the others are still under way
        for place in places:
            message = self._fetch(place)
            if message is not None:
                return message
        return None

    def consume(self, most: int, timeout: float) -> list[Message]:
        """What is there already: as much as luck has fetched."""
        found: list[Message] = []
        most = min(most, (0, 1, 2, 5, 50, 50)[self._process.luck() % 6])
        for place in list(self._positions):
            while len(found) < most and (message := self._fetch(place)) is not None:
                found.append(message)
        return found

    def _has_more(self) -> bool:
        return any(self._look(place) for place in self._positions)

    def _just_grown(self, place: Place) -> bool:
        """Could the end have been here a moment ago?"""
        found = self._look(place)
        return isinstance(found, Record) and self._log.now_ms - found.time_ms < MARGIN_MS

    def _look(self, place: Place) -> Record | bool | None:
        if place in self._paused:
            return None
        partition = self._log.topics[place[0]][place[1]]
        record = partition.next(self._positions[place], self._committed)
        return record if record is not None else place not in self._told_end

    def _fetch(self, place: Place) -> Message | None:
        found = self._look(place)
        if isinstance(found, Record):
            self._positions[place] = found.offset + 1
            self._told_end.discard(place)
            return _message(place, found.offset, found)
        if not found:
            return None
        # At the end: the position passes markers and what was aborted or compacted.
        self._told_end.add(place)
        partition = self._log.topics[place[0]][place[1]]
        end = partition.stable_end if self._committed else partition.end
        self._positions[place] = max(end, self._positions[place])
        return _message(place, self._positions[place], None)


class SimProducer:
    """A transactional producer: its records are sent when the transaction is committed, as librdkafka flushes."""

    def __init__(self, log: Log, process: Process, transactional_id: str) -> None:
        self._log = log
        self._process = process
        self._id = transactional_id
        self._epoch = -1
        self._batches: list[tuple[Place, list[dict[str, bytes]]]] = []

    def poll(self, timeout: float) -> int:
        return 0

    def init_transactions(self, timeout: float) -> None:
        self._process.pause()
        known = self._log.producers.setdefault(self._id, Coordinated())
        known.epoch += 1
        self._epoch = known.epoch
        if known.transaction is not None and known.transaction.outcome is Outcome.OPEN:
            self._log.decide(known, Outcome.ABORTED)
        while known.transaction is not None:
            self._process.pause(lambda: known.transaction is None)
            self._known()

    def begin_transaction(self) -> None:
        self._batches = []

    def produce_batch(self, topic: str, records: list[dict[str, bytes]], partition: int) -> int:
        self._batches.append(((topic, partition), records))
        return len(records)

    def commit_transaction(self, timeout: float) -> None:
        self._process.pause()
        known = self._known()
        while known.transaction is not None:  # the markers of the one before are still on their way
            self._process.pause(lambda: known.transaction is None)
            self._known()
        known.transaction = transaction = Transaction(self._process)
        for place, records in self._batches:
            for record in records:
                self._known(transaction)
                self._log.append(place, record.get("key"), record["value"], None, transaction)
                if self._process.luck() % 8 == 0:
                    self._process.pause()
        self._process.pause()
        self._known(transaction)
        self._log.decide(known, Outcome.COMMITTED)
        self._process.unknown_outcome()

    def _known(self, transaction: Transaction | None = None) -> Coordinated:
        """Raises as librdkafka does when a newer producer, or the time-out, has ended this one's turn."""
        known = self._log.producers[self._id]
        timed_out = transaction is not None and transaction.outcome is not Outcome.OPEN
        if known.epoch != self._epoch or timed_out:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced by a newer producer"))
        return known
