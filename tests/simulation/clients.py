"""Consumer, producer and admin client of the simulated log: what the services use of confluent-kafka, and no more.

Every call that would go over the network is a moment at which the process may be stalled or killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource, NewTopic

from cutwater.adapters.fetch.leader_epochs import LeaderEpochs
from cutwater.adapters.kafka.client_config import Security
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol import topics
from cutwater.core.state.backlog import MARGIN_MS
from simulation.fetching import WIRE, Link, SimFetcher
from simulation.job import GENERATION, JOB
from simulation.log import Headers, Log, Outcome, Partition, Place, Record, Transaction
from simulation.log import Producer as Coordinated
from simulation.processes import Process

CHANGELOG = topics.changelog(JOB.name, GENERATION)
_EOF = KafkaError(KafkaError._PARTITION_EOF, "end of partition")


class SimCluster:
    """Stands for `cutwater.adapters.kafka.client_config.Cluster` in one process."""

    bootstrap = "simulated"
    security = Security()

    def __init__(self, log: Log, process: Process, link: Link = WIRE) -> None:
        """`link`: over which the process reaches it, where it is another region's."""
        self._log = log
        self._process = process
        self._link = link

    def librdkafka(self) -> dict[str, Any]:
        return {}

    def client(self, kind: Callable[..., Any], settings: dict[str, Any], **_options: Any) -> Any:
        if kind is Consumer:
            committed = settings["isolation.level"] == "read_committed"
            return SimConsumer(self._log, self._process, self._link, committed)
        if kind is Producer:
            return SimProducer(self._log, self._process, settings["transactional.id"])
        return SimAdmin(self._log, self._process, self._link)

    def reader(self, kind: Callable[..., Any], topic: str, topic_id: str = "", **_options: object) -> Any:
        if kind is LeaderEpochs:
            return SimLeaderEpochs(self._log, self._process, self._link, topic)
        return SimFetcher(self._log, self._process, self._link, topic, topic_id)


class _Answer:
    """A future that has its answer."""

    def __init__(self, found: Any = None, error: int | None = None) -> None:
        self._found = found
        self._error = None if error is None else KafkaException(KafkaError(error, "simulated"))

    def exception(self, _timeout: float) -> KafkaException | None:
        return self._error

    def result(self, _timeout: float) -> Any:
        if self._error is not None:
            raise self._error
        return self._found


class SimLeaderEpochs:
    """`cutwater.adapters.fetch.leader_epochs.LeaderEpochs`."""

    def __init__(self, log: Log, process: Process, link: Link, topic: str) -> None:
        self._log, self._process, self._link, self._topic = log, process, link, topic

    def ends(self, epochs: Mapping[int, int]) -> dict[int, int]:
        self._process.pause()
        if self._link.cut or self._topic not in self._log.topics:
            raise UnavailableError(f"{self._topic}: nobody says where the records of earlier leaders end")
        partitions = self._log.topics[self._topic]
        return {number: partitions[number].end_of(epoch)[1] for number, epoch in epochs.items()}


class SimAdmin:
    def __init__(self, log: Log, process: Process, link: Link = WIRE) -> None:
        self._log = log
        self._process = process
        self._link = link

    def _asked(self) -> int | None:
        """The error of what was asked over a link that is cut."""
        self._process.pause()
        return KafkaError._TIMED_OUT if self._link.cut else None

    def list_topics(self, topic: str | None = None, timeout: float = 0.0) -> Any:
        if (error := self._asked()) is not None:
            raise KafkaException(KafkaError(error, "the link is cut"))
        return _described(self._log, topic)

    def describe_cluster(self, **_options: object) -> _Answer:
        return _Answer(SimpleNamespace(cluster_id=self._log.name), self._asked())

    def describe_topics(self, asked: TopicCollection, **_options: object) -> dict[str, _Answer]:
        error = self._asked()
        return {name: self._topic(name, error) for name in asked.topic_names}

    def _topic(self, name: str, error: int | None) -> _Answer:
        if error is not None:
            return _Answer(error=error)
        if name not in self._log.topics:
            return _Answer(error=KafkaError.UNKNOWN_TOPIC_OR_PART)
        partitions = [SimpleNamespace(replicas=[1]) for _ in self._log.topics[name]]
        identity = self._log.identities[name]
        return _Answer(SimpleNamespace(topic_id=identity, partitions=partitions, authorized_operations=None))

    def describe_configs(self, asked: list[ConfigResource], **_options: object) -> dict[ConfigResource, _Answer]:
        error = self._asked()
        return {one: self._settings(one.name, error) for one in asked}

    def _settings(self, topic: str, error: int | None) -> _Answer:
        """In force: the brokers' own, and what the topic was made with."""
        if error is None and topic not in self._log.topics:
            error = KafkaError.UNKNOWN_TOPIC_OR_PART
        if error is not None:
            return _Answer(error=error)
        found = {"max.message.bytes": "1048588", "cleanup.policy": "delete"} | self._log.settings[topic]
        return _Answer({key: SimpleNamespace(value=value) for key, value in found.items()})

    def incremental_alter_configs(
        self, asked: list[ConfigResource], **_options: object
    ) -> dict[ConfigResource, _Answer]:
        error = self._asked()
        for one in asked if error is None else ():
            self._log.settings[one.name] = self._log.settings[one.name] | {
                entry.name: entry.value for entry in one.incremental_configs
            }
        return {one: _Answer(error=error) for one in asked}

    def create_topics(self, asked: list[NewTopic], **_options: object) -> dict[str, _Answer]:
        self._asked()
        return {one.topic: self._create(one) for one in asked}

    def _create(self, one: NewTopic) -> _Answer:
        if one.topic in self._log.topics:
            return _Answer(error=KafkaError.TOPIC_ALREADY_EXISTS)
        self._log.create(one.topic, one.num_partitions, one.config)
        return _Answer()

    def delete_topics(self, asked: list[str], **_options: object) -> dict[str, _Answer]:
        self._asked()
        return {one: self._delete(one) for one in asked}

    def _delete(self, topic: str) -> _Answer:
        if topic not in self._log.topics:
            return _Answer(error=KafkaError.UNKNOWN_TOPIC_OR_PART)
        self._log.delete(topic)
        return _Answer()

    def delete_records(self, asked: list[TopicPartition], **_options: object) -> dict[TopicPartition, _Answer]:
        self._asked()
        for one in asked:
            self._log.truncate((one.topic, one.partition), one.offset)
        return dict.fromkeys(asked, _Answer())

    def poll(self, timeout: float) -> int:
        return 0


def partition_of(log: Log, place: Any) -> Partition | None:
    """None where there is none."""
    found = log.topics.get(place.topic, [])
    return found[place.partition] if place.partition < len(found) else None


def _described(log: Log, topic: str | None) -> Any:
    names = log.topics if topic is None else (topic,)
    return SimpleNamespace(topics={name: _metadata(log, name) for name in names})


def _metadata(log: Log, topic: str) -> Any:
    if topic not in log.topics:
        error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic")
        return SimpleNamespace(error=error, partitions={})
    return SimpleNamespace(error=None, partitions=dict.fromkeys(range(len(log.topics[topic]))))


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
    def __init__(self, log: Log, process: Process, link: Link, committed: bool) -> None:
        self._log = log
        self._process = process
        self._link = link
        self._committed = committed
        self._positions: dict[Place, int] = {}
        self._told_end: dict[Place, int] = {}
        """Told once of each end: markers alone make another one."""
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
        if self._link.cut:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the link is cut"))
        found = []
        for place in places:
            if (partition := partition_of(self._log, place)) is None:
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic"))
            end = partition.stable_end if self._committed else partition.end
            at = partition.first if place.offset == OFFSET_BEGINNING else end
            if place.offset >= 0:  # a time
                since = [one.offset for one in partition.records if one.time_ms >= place.offset]
                at = since[0] if since else OFFSET_END
            leader = {"leader_epoch": partition.leader_epoch} if self._log.tells_leaders else {}
            found.append(TopicPartition(place.topic, place.partition, at, **leader))
        return found

    def poll(self, timeout: float) -> Message | None:
        self._process.pause(self._has_more if timeout else None)
        slow = self._process.luck()
        places = list(self._positions)
        lagging = self._log.lagging or CHANGELOG
        if slow % 13 == 0 and places and places[0][0].startswith(lagging) and self._just_grown(places[0]):
            # An end as it was a moment ago: something open held the last stable offset back.
            return _message(places[0], self._positions[places[0]], None)
        if len(places) > 1:
            turn = slow % len(places)
            places = places[turn:] + places[:turn]
            if slow % 5 == 0:
                places = places[:1]  # the fetches of the others are still under way
        for place in places:
            message = self._fault(place)
            message = self._fetch(place) if message is None else message  # one without a value is false
            if message is not None:
                return message
        return None

    def _fault(self, place: Place) -> Message | None:
        """There is no such topic, or it does not hold what is asked for."""
        found, at = self._log.topics.get(place[0]), self._positions[place]
        if found is None:
            error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic")
        elif not found[place[1]].first <= at <= found[place[1]].end:
            error = KafkaError(KafkaError._AUTO_OFFSET_RESET, f"offset {at} is not there")
        else:
            return None
        return Message(topic=place[0], partition=place[1], offset=at, error=error)

    def consume(self, most: int, timeout: float) -> list[Message]:
        """What is there already: as much as luck has fetched."""
        found: list[Message] = []
        most = min(most, (0, 1, 2, 5, 50, 50)[self._process.luck() % 6])
        for place in list(self._positions):
            if most and (fault := self._fault(place)) is not None:
                return [fault]
            while len(found) < most and (message := self._fetch(place)) is not None:
                found.append(message)
        return found

    def _has_more(self) -> bool:
        return any(self._fault(place) is not None or self._look(place) for place in self._positions)

    def _just_grown(self, place: Place) -> bool:
        """Could the end have been here a moment ago?"""
        found = self._look(place)
        return isinstance(found, Record) and self._log.now_ms - found.time_ms < MARGIN_MS

    def _look(self, place: Place) -> Record | bool | None:
        if place in self._paused:
            return None
        partition = self._log.topics[place[0]][place[1]]
        record = partition.next(self._positions[place], self._committed)
        return record if record is not None else self._told_end.get(place, -1) < self._end(place)

    def _end(self, place: Place) -> int:
        partition = self._log.topics[place[0]][place[1]]
        return partition.stable_end if self._committed else partition.end

    def _fetch(self, place: Place) -> Message | None:
        found = self._look(place)
        if isinstance(found, Record):
            self._positions[place] = found.offset + 1
            self._told_end.pop(place, None)
            return _message(place, found.offset, found)
        if not found:
            return None
        # At the end: the position passes markers and what was aborted or compacted.
        self._told_end[place] = end = self._end(place)
        self._positions[place] = max(end, self._positions[place])
        return _message(place, self._positions[place], None)


class Unsent(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers | None


class SimProducer:
    """A transactional producer: its records are sent when the transaction is committed, as librdkafka flushes."""

    def __init__(self, log: Log, process: Process, transactional_id: str) -> None:
        self._log = log
        self._process = process
        self._id = transactional_id
        self._epoch = -1
        self._queued: list[tuple[Place, Unsent]] = []
        self._transaction: Transaction | None = None
        """The one that is open, once anything of it was sent."""

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
        if self._epoch < 0:
            raise KafkaException(KafkaError(KafkaError._STATE, "transactions are not initialised"))
        self._queued, self._transaction = [], None

    def produce_batch(self, topic: str, records: list[dict[str, bytes]], partition: int) -> int:
        self._queued += [((topic, partition), Unsent(one.get("key"), one.get("value"), None)) for one in records]
        return len(records)

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        _told: Callable[..., None],
        timestamp: int,
        headers: Headers,
    ) -> None:
        self._queued.append(((topic, partition), Unsent(key, value, headers)))

    def flush(self, timeout: float) -> int:
        """Send what is queued, and have it acknowledged: the transaction is open from here on."""
        self._process.pause()
        self._send()
        return 0

    def commit_transaction(self, timeout: float) -> None:
        self._process.pause()
        known = self._send()
        self._process.pause()
        self._known(self._transaction)
        self._log.decide(known, Outcome.COMMITTED)
        self._process.unknown_outcome()

    def abort_transaction(self, timeout: float) -> None:
        self._process.pause()
        known = self._known(self._transaction)
        if self._transaction is not None:
            self._log.decide(known, Outcome.ABORTED)

    def _send(self) -> Coordinated:
        known = self._known(self._transaction)
        if self._transaction is None:
            while known.transaction is not None:  # the markers of the one before are still on their way
                self._process.pause(lambda: known.transaction is None)
                self._known()
            known.transaction = self._transaction = Transaction(self._process)
        for place, one in self._queued:
            self._known(self._transaction)
            if place[0] not in self._log.topics:
                raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT, f"{place[0]} is not there"))
            self._log.append(place, one.key, one.value, one.headers, self._transaction)
            if self._process.luck() % 8 == 0:
                self._process.pause()
        self._queued = []
        return known

    def _known(self, transaction: Transaction | None = None) -> Coordinated:
        """Raises as librdkafka does when a newer producer, or the time-out, has ended this one's turn."""
        known = self._log.producers[self._id]
        timed_out = transaction is not None and transaction.outcome is not Outcome.OPEN
        if known.epoch != self._epoch or timed_out:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced by a newer producer"))
        return known
