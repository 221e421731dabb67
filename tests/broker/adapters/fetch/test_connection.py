"""What a bulk reader needs of aiokafka's client: it makes no topic, and another follows one that is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from cutwater.adapters.fetch import connection, partition_cursor
from cutwater.adapters.fetch.connection import Clients
from cutwater.adapters.fetch.fetcher import ANSWER_S, Fetcher
from cutwater.adapters.fetch.partition_cursor import PartitionCursor
from cutwater.adapters.fetch.record_batches import records
from cutwater.adapters.kafka.admin import create_topics, delete_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.topic_ids import TopicIds
from cutwater.core.errors import CutwaterError, MachineError
from cutwater.core.protocol.topics import TopicSpec
from cutwater.core.state.bulk_load import Slice, Task
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.link import Link
from cutwater.local.machine.ports import LOOPBACK, free_ports
from cutwater.local.processes.supervisor import Supervisor
from cutwater.views.bulk.worker import Worker
from cutwater.views.changelog.range_reader import STALL_S

PATIENCE_S = 3.0


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (connection, partition_cursor):
        monkeypatch.setattr(one, "TIMEOUT_S", PATIENCE_S)


@contextmanager
def running(broker: Broker) -> Iterator[Cluster]:
    with Supervisor([broker.supervised()]) as supervisor:
        assert supervisor.start(threading.Event())
        yield broker.cluster


def write(cluster: Cluster, topic: str, value: bytes) -> None:
    producer = Producer(cluster.librdkafka())
    producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def until_values(fetcher: Fetcher, count: int, timeout_s: float = 40) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline = time.monotonic() + timeout_s
    while len(values) < count:
        assert time.monotonic() < deadline, fetcher.trouble
        values += [record.value for one in fetcher.take(0.5).values() for record in records(one)]
    return values


@pytest.mark.slow
def test_brokers_that_come_back_at_other_addresses_are_found(
    tmp_path: Path, kafka_jars: list[Path], impatient: None
) -> None:
    """Those that the client knew are gone; where it was told to begin, it is told where they are now."""
    before, after, controller, front = free_ports(4)
    ports = {"controller_port": controller}
    old = Broker(tmp_path / "own", find_java(), kafka_jars, port=before, **ports)
    with Link(front, before) as link:
        fetcher = Cluster(f"{LOOPBACK}:{front}").reader(Fetcher, "moved", answer_s=PATIENCE_S)
        with closing(fetcher):
            with running(old) as cluster:
                create_topics(cluster, [TopicSpec("moved", 1, ())])
                write(cluster, "moved", b"before")
                fetcher.assign({0: 0})
                assert until_values(fetcher, 1) == [b"before"]
                assert fetcher.trouble == ""
            deadline = time.monotonic() + 20
            while not fetcher.trouble:
                assert time.monotonic() < deadline
                fetcher.take(0.1)
            link.leads_to(after)
            with running(Broker(tmp_path / "own", find_java(), kafka_jars, port=after, **ports)) as cluster:
                write(cluster, "moved", b"after")
                assert until_values(fetcher, 1) == [b"after"]
                assert fetcher.trouble == ""


@pytest.mark.slow
def test_a_deleted_topic_is_not_made_by_who_reads_it(tmp_path: Path, kafka_jars: list[Path]) -> None:
    """Where brokers make what somebody asks for. Read by its name, and by its identity."""
    making = {"auto.create.topics.enable": "true"}
    own = Broker(tmp_path / "own", find_java(), kafka_jars, overrides=making)
    with running(own) as cluster:
        create_topics(cluster, [TopicSpec("retired", 2, ())])
        write(cluster, "retired", b"value")
        topic_id = TopicIds(cluster).read(["retired"])["retired"].topic_id
        by_name = cluster.reader(Fetcher, "retired")
        by_identity = cluster.reader(Fetcher, "retired", topic_id=topic_id)
        with closing(by_name), closing(by_identity):
            for fetcher in (by_name, by_identity):
                fetcher.assign({0: 0, 1: 0})
                assert until_values(fetcher, 1) == [b"value"]
            delete_topics(cluster, ["retired"])
            until = time.monotonic() + 3
            while time.monotonic() < until:
                for fetcher in (by_name, by_identity):
                    fetcher.take(0.1)
            admin = AdminClient({**cluster.librdkafka(), "allow.auto.create.topics": False})
            assert "retired" not in admin.list_topics(timeout=20).topics


class _Away:
    """A client whose brokers are at none of the addresses."""

    made: list[dict[str, Any]]

    def __init__(self, **settings: Any) -> None:
        self.made.append(settings)

    async def bootstrap(self) -> None:
        if self.made[-1]["bootstrap_servers"] != "there":
            raise KafkaConnectionError("nobody")

    async def close(self) -> None:
        pass


def test_each_client_is_made_with_the_settings_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that was renewed counts. While its files are being replaced the ones before do."""
    monkeypatch.setattr(connection, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(connection, "ReadingClient", _Away)
    monkeypatch.setattr(_Away, "made", [], raising=False)
    answers: list[str | CutwaterError] = ["old", MachineError("half a file"), "there", "there too", "there"]

    def settings() -> dict[str, Any]:
        answer = answers.pop(0)
        if isinstance(answer, CutwaterError):
            raise answer
        return {"bootstrap_servers": answer}

    async def run() -> None:
        clients = Clients(settings, 0.7, lambda: False)
        assert await clients.first() is not None
        assert clients.trouble == ""
        assert await clients.another(lambda: True) is not None

    asyncio.run(asyncio.wait_for(run(), 30))
    made = [one["bootstrap_servers"] for one in _Away.made]
    assert made == ["old", "old", "there", "there too", "there"]
    assert {one["request_timeout_ms"] for one in _Away.made} == {700}


def test_settings_that_cannot_be_used_are_told_at_once() -> None:
    """Before anybody reads."""

    def settings() -> dict[str, Any]:
        raise MachineError("no such file")

    with pytest.raises(MachineError, match="no such file"):
        Fetcher(settings, "topic")


def test_a_broker_that_never_answers_holds_up_no_longer_than_said(
    broker: Any, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that restores gives up before aiokafka's own bound; the next address answers."""
    topic = unique("second")
    create_topics(broker.cluster, [TopicSpec(topic, 1, ())])
    write(broker.cluster, topic, b"value")
    monkeypatch.setattr("aiokafka.conn.random.shuffle", lambda _: None)  # the first is asked first
    mute, port = free_ports(1)[0], int(broker.cluster.bootstrap.rpartition(":")[2])
    with Link(mute, port) as link:
        link.held = frozenset({"from the broker"})
        both = Cluster(f"{LOOPBACK}:{mute},{broker.cluster.bootstrap}")
        with closing(both.reader(Fetcher, topic, answer_s=1.0)) as fetcher:
            fetcher.assign({0: 0})
            assert until_values(fetcher, 1, timeout_s=15) == [b"value"]
        assert link.held_bytes


def test_a_worker_that_restores_hears_of_that_before_it_gives_up() -> None:
    asked: dict[str, Any] = {}

    class Noting(Cluster):
        def reader(self, kind: Callable[..., Any], topic: str, **options: Any) -> Any:
            asked.update(options)

    task = Task("t", [Slice(0, 0, 1)], "/f", 1, 2, 3, "g1-local-00000000/1/2", "c301", "c302", 4, 5, STALL_S)
    Worker(task, Noting("b:1"), lambda _path, _done: None)
    assert asked["answer_s"] < STALL_S < ANSWER_S


class _Half:
    """A client whose first one is refused by broker 2; the second one is not, once it is let through."""

    made = 0
    let_through: asyncio.Event
    asked: list[tuple[int, int]]
    """Which client was asked, and of which broker."""
    fetcher: Fetcher

    def __init__(self, **_: Any) -> None:
        _Half.made += 1
        self._number, self.cluster = _Half.made, self

    def leader_for_partition(self, place: Any) -> int:
        return int(place.partition) + 1

    def set_topics(self, _: Any) -> None:
        pass

    def force_metadata_update(self) -> None:
        pass

    async def bootstrap(self) -> None:
        if self._number > 1:
            await self.let_through.wait()

    async def send(self, node: int, _: Any) -> Any:
        self.asked.append((self._number, node))
        if (self._number, node) == (1, 2):
            raise KafkaConnectionError("refused")
        if self._number > 1 and node == 2:
            _Half.fetcher._closed = True
        await asyncio.sleep(0.01)
        return SimpleNamespace(topics=[("t", [(node - 1, 0, 0, 0, None, b"")])])

    async def close(self) -> None:
        pass


class _Thin(_Half):
    """Of broker 2 nobody gets an answer; one of broker 1 takes longer than the silence before another client."""

    answered = 0

    async def bootstrap(self) -> None:
        pass

    async def send(self, node: int, _: Any) -> Any:
        if node == 2:
            raise KafkaConnectionError("refused")
        await asyncio.sleep(0.4)
        _Thin.answered += 1
        self.fetcher._closed = _Thin.answered > 2
        return SimpleNamespace(topics=[("t", [(0, 0, 0, 0, None, b"")])])


def test_over_a_thin_line_answers_come_although_clients_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is given less time than an answer takes would ask for the same for ever."""
    monkeypatch.setattr(connection, "ReadingClient", _Thin)
    monkeypatch.setattr(_Half, "made", 0)
    for one in (connection, partition_cursor):
        monkeypatch.setattr(one, "TIMEOUT_S", 0.2)

    async def run() -> None:
        monkeypatch.setattr(_Half, "fetcher", fetcher := Fetcher(dict, "t", answer_s=0.6), raising=False)
        fetcher._ways = {0: PartitionCursor(0), 1: PartitionCursor(0)}
        await fetcher._run()

    asyncio.run(asyncio.wait_for(run(), 30))
    assert _Thin.answered > 2
    assert _Half.made > 1, "another client was made"


@pytest.mark.slow
def test_while_another_client_is_made_the_first_one_reads_on(
    impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broker refuses it, as with a certificate that has expired, or is elsewhere; the others answer."""
    monkeypatch.setattr(connection, "ReadingClient", _Half)
    monkeypatch.setattr(_Half, "made", 0)
    monkeypatch.setattr(_Half, "asked", [], raising=False)

    async def run() -> None:
        monkeypatch.setattr(_Half, "let_through", asyncio.Event(), raising=False)
        monkeypatch.setattr(_Half, "fetcher", fetcher := Fetcher(dict, "t", answer_s=PATIENCE_S), raising=False)
        fetcher._ways = {0: PartitionCursor(0), 1: PartitionCursor(0)}
        reading = asyncio.create_task(fetcher._run())
        while _Half.made < 2:
            await asyncio.sleep(0.01)
        assert "broker 2 does not answer" in fetcher.trouble
        before = _Half.asked.count((1, 1))
        await asyncio.sleep(0.3)
        assert _Half.asked.count((1, 1)) > before + 3
        _Half.let_through.set()
        await reading

    asyncio.run(asyncio.wait_for(run(), 30))
    assert {(1, 1), (1, 2), (2, 2)} <= set(_Half.asked)
