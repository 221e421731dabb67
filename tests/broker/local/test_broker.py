"""The embedded broker, for real: start, data across restarts, kill -9, ports, bad folders."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cutwater.adapters.kafka.client import partition_count
from cutwater.core.errors import MachineError, UnavailableError, UsageError
from cutwater.local.embedded_broker.broker import Broker, new_cluster_id
from cutwater.local.embedded_broker.config import read_properties, render_properties, server_properties
from cutwater.local.java import find_java
from cutwater.local.machine.ports import LOOPBACK
from cutwater.local.processes.restart_policy import NEVER_RESTART, RestartPolicy
from cutwater.local.processes.supervisor import Supervisor
from support.harness import wait_until

TOPIC = "kept"
WAIT_SECONDS = 60.0
MakeBroker = Callable[..., Broker]


@pytest.fixture
def make_broker(tmp_path: Path, kafka_jars: list[Path]) -> MakeBroker:
    """A broker object on this test's own data folder; each call is a new start of the program."""

    def make(**settings: object) -> Broker:
        return Broker(tmp_path / "data", find_java(), kafka_jars, **settings)  # type: ignore[arg-type]

    return make


@pytest.fixture
def supervisors() -> Iterator[Callable[..., Supervisor]]:
    """Starts a supervisor of one broker and ends whatever is left of it."""
    running: list[Supervisor] = []

    def start(broker: Broker, restart: RestartPolicy = NEVER_RESTART) -> Supervisor:
        running.append(Supervisor([broker.supervised(restart)]))
        assert running[-1].start(threading.Event())
        return running[-1]

    yield start
    for supervisor in running:
        supervisor.stop()


def produce(broker: Broker, values: list[str]) -> None:
    """Write in one transaction: it needs the transaction coordinator, which needs its internal topic."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "writer"})
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    for value in values:
        producer.produce(TOPIC, value)
    producer.commit_transaction(WAIT_SECONDS)


def consume(broker: Broker, count: int) -> list[str]:
    """Read with a consumer group: it needs the group coordinator and its internal topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            # With it, close() would commit past records that consume() has fetched and not returned.
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    messages = consumer.consume(count, timeout=WAIT_SECONDS)
    consumer.commit(asynchronous=False)
    consumer.close()
    return [(message.value() or b"").decode() for message in messages]


def create_topic(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(WAIT_SECONDS)


@pytest.mark.slow
def test_a_restart_keeps_data_identity_and_port(
    make_broker: MakeBroker, supervisors: Callable[..., Supervisor]
) -> None:
    """What was committed before an orderly end is read after a new start on the same folder and port."""
    first = make_broker()
    supervisor = supervisors(first)
    create_topic(first)
    produce(first, ["a", "b"])
    assert consume(first, 1) == ["a"]
    identity = first.cluster_id
    supervisor.stop()
    assert not first.ready()
    second = make_broker()
    supervisors(second)
    assert (second.bootstrap, second.cluster_id) == (first.bootstrap, identity)
    produce(second, ["c"])
    assert consume(second, 2) == ["b", "c"], "the group goes on where it was"


@pytest.mark.slow
def test_a_killed_broker_comes_back_with_its_data(
    make_broker: MakeBroker, supervisors: Callable[..., Supervisor]
) -> None:
    """kill -9 in the middle: the supervisor restarts the broker, and every acknowledged record is there."""
    broker = make_broker()
    supervised = broker.supervised(RestartPolicy(delay_seconds=0.1))
    stop = threading.Event()
    with Supervisor([supervised]) as supervisor:
        supervisor.start(stop)
        create_topic(broker)
        produce(broker, ["a", "b"])
        killed = supervised.child.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        loop = threading.Thread(target=supervisor.run, args=(stop,))
        loop.start()
        try:
            produce(broker, ["c"])
            assert consume(broker, 3) == ["a", "b", "c"]
            assert supervised.child.pid != killed, "the fault happened"
        finally:
            stop.set()
            loop.join(WAIT_SECONDS)
    assert not loop.is_alive()
    assert supervised.child.pids() == []


@pytest.mark.slow
def test_a_topic_that_nobody_created_is_an_error(
    make_broker: MakeBroker, supervisors: Callable[..., Supervisor]
) -> None:
    """Topics are not created by typing errors, and overrides reach the broker."""
    broker = make_broker(overrides={"message.max.bytes": "12345"})
    supervisors(broker)
    known = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics("mistyped", timeout=10)
    assert known.topics["mistyped"].error is not None
    assert "message.max.bytes=12345" in (broker.data_dir / "server.properties").read_text()


@pytest.mark.slow
def test_asking_for_a_topic_does_not_make_it(
    make_broker: MakeBroker, supervisors: Callable[..., Supervisor]
) -> None:
    """Not even on brokers that make topics by themselves, as Kafka's do by default; a plain client would."""
    broker = make_broker(overrides={"auto.create.topics.enable": "true"})
    supervisors(broker)
    for _ in range(2):
        with pytest.raises(UsageError, match="mistyped does not exist"):
            partition_count(broker.cluster, "mistyped")
    plain = AdminClient({"bootstrap.servers": broker.bootstrap})
    plain.list_topics("made", timeout=10)
    wait_until(lambda: "made" in plain.list_topics(timeout=10).topics, "the broker to make a topic by itself")
    assert "mistyped" not in plain.list_topics(timeout=10).topics


def test_a_port_in_use_is_refused_before_java_starts(make_broker: MakeBroker) -> None:
    """A requested port that somebody holds: named, with its purpose; no JVM, no log."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        for settings, purpose in [({"port": port}, "the broker"), ({"controller_port": port}, "controller")]:
            broker = make_broker(**settings)
            with pytest.raises(MachineError, match=rf"Port {port} .*{purpose}"):
                Supervisor([broker.supervised()]).start(threading.Event())
            assert not broker.log_path.exists()


def test_a_broker_that_cannot_start_shows_its_log(make_broker: MakeBroker) -> None:
    """A setting that Kafka refuses: the error names the log file and shows Kafka's own words."""
    good = make_broker()
    good.prepare()  # the storage is formatted, so that it is the server that fails
    broken = make_broker(overrides={"num.io.threads": "0"})
    with pytest.raises(UnavailableError) as raised:
        Supervisor([broken.supervised(NEVER_RESTART)]).start(threading.Event())
    assert str(broken.log_path) in str(raised.value)
    assert "num.io.threads" in str(raised.value)


def test_formatting_that_fails_shows_the_tools_words(make_broker: MakeBroker) -> None:
    """A format that fails leaves no storage behind that would pass for a whole one."""
    broker = make_broker(overrides={"node.id": "-1"})
    with pytest.raises(MachineError, match=r"could not be formatted"):
        broker.prepare()
    assert not (broker.data_dir / "log").exists()
    assert broker.cluster_id is None


def test_a_data_folder_that_cannot_be_written_is_named(tmp_path: Path, kafka_jars: list[Path]) -> None:
    """A data folder below a file: an error that names it before anything starts."""
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match=r"data folder .* of the broker cannot be used"):
        Broker(tmp_path / "file" / "data", find_java(), kafka_jars)


@pytest.mark.slow
def test_a_foreign_broker_on_the_port_is_not_ready(
    make_broker: MakeBroker, supervisors: Callable[..., Supervisor], tmp_path: Path, kafka_jars: list[Path]
) -> None:
    """Readiness means that this data folder's broker answers, not just any broker on that port."""
    mine = make_broker()
    supervisors(mine)
    other = Broker(tmp_path / "other", find_java(), kafka_jars, port=mine.port)
    assert mine.ready()
    assert not other.ready()


def test_properties_survive_the_file_format() -> None:
    """Overrides win, and a backslash in a value is escaped as Java expects."""
    settings = server_properties(Path("/data/log"), 1, 2, {"num.io.threads": "9", "x": "a\\b"})
    text = render_properties(settings)
    assert "num.io.threads=9\n" in text
    assert "x=a\\\\b\n" in text
    assert read_properties("#comment\n cluster.id = abc\n") == {"cluster.id": "abc"}


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    """An id that would begin with a dash (one in 64 does) begins with another letter; others stay as they are."""
    assert new_cluster_id(b"\xf8" + bytes(15)) == "A" + "A" * 21
    assert new_cluster_id(b"\x10" + bytes(15)) == "EAAAAAAAAAAAAAAAAAAAAA"
