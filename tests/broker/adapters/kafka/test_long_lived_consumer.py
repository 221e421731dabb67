"""Readers that go on where their client is cut off for good: by a broker that answers as one that is just back."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import chain, pairwise, repeat
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from cutwater.adapters.kafka.admin import create_topics
from cutwater.adapters.kafka.client import topic_error
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.connect import replacement
from cutwater.adapters.kafka.long_lived_consumer import LongLivedConsumer
from cutwater.adapters.kafka.offsets import WRITTEN, Offsets
from cutwater.adapters.kafka.topic_ids import TopicIds
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.topics import TopicSpec
from support.harness import wait_until
from support.kafka.nobrokers import Forgetful, forgetful_broker

ASK_S, SILENT_S = 0.5, 2.0
READERS, BUSY, TRIES = 16, 3, 20
"""A client is cut off by a race of its own threads: among many on a busy machine some lose it."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, kafka_jars: list[Path]) -> Iterator[Forgetful]:
    with forgetful_broker(tmp_path_factory.mktemp("forgetful"), kafka_jars) as one:
        yield one


@pytest.fixture
def topic(broker: Forgetful, unique: Callable[[str], str]) -> str:
    name = unique("long-read")
    create_topics(broker.cluster, [TopicSpec(name, 2, ())])
    return name


@pytest.mark.slow
def test_readers_whose_clients_are_cut_off_go_on(broker: Forgetful, topic: str) -> None:
    """librdkafka's issue 5301. Where no client is cut off any more, it is mended: this test has done its work."""
    write(broker.cluster, topic, b"a", b"b")
    with ExitStack() as stack:
        reads = [
            stack.enter_context(closing(LongLivedConsumer(broker.cluster, topic, SILENT_S)))
            for _ in range(READERS)
        ]
        for read in reads:
            read.begin({0: 0})
            assert taken(read, 2) == [b"a", b"b"]
        clients = [read.consumer for read in reads]
        with busy_machine():
            found = (cut_off_by_a_restart(broker, clients, topic) for _ in range(TRIES))
            lost = next((at for at in found if at is not None), None)
        assert lost is not None, f"{broker.told} answers without brokers, and every client recovers"
        write(broker.cluster, topic, b"c")
        assert [taken(read, 1) for read in reads] == [[b"c"]] * READERS
        assert reads[lost].consumer is not clients[lost]


def cut_off_by_a_restart(broker: Forgetful, clients: list[Consumer], topic: str) -> int | None:
    """One that hears of no broker, though it answers again."""
    told = broker.told
    with broker.away():
        time.sleep(0.5)  # each client shall meet the closed port, which nothing of a client tells
    wait_until(lambda: broker.told > told, "an answer without brokers")
    time.sleep(0.5)
    broker.forgets = False
    deaf = (all(topic_error(client, topic, ASK_S) is not None for _ in range(8)) for client in clients)
    return next((at for at, one in enumerate(deaf) if one), None)


@contextmanager
def busy_machine() -> Iterator[None]:
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.wait(10)


@pytest.mark.slow
def test_what_was_held_is_held_by_the_next_client(broker: Forgetful, topic: str) -> None:
    with closing(LongLivedConsumer(broker.cluster, topic, SILENT_S)) as read:
        read.begin({0: 0, 1: 0})
        read.hold({1})
        first = read.consumer
        first.pause([Place(topic, 0)])  # fetches no more, without a word
        write(broker.cluster, topic, b"held", partition=1)
        write(broker.cluster, topic, b"a")
        assert taken(read, 1) == [b"a"]
        assert read.consumer is not first
        assert not list(read.read(ASK_S))
        read.hold(set())
        assert taken(read, 1) == [b"held"]


@pytest.mark.slow
def test_a_silence_begins_when_it_is_noticed(broker: Forgetful, topic: str) -> None:
    """A program that is long about a record did not wait for the next: its client stays."""
    clock = chain([0.0, 1.0, 1.9, 2.1], repeat(2.1))
    with closing(LongLivedConsumer(broker.cluster, topic, SILENT_S, lambda: next(clock))) as read:
        read.begin({0: 0})
        first = read.consumer
        first.pause([Place(topic, 0)])
        for _ in range(3):
            assert not list(read.read(0.0))
            assert read.consumer is first
        assert not list(read.read(0.0))
        assert read.consumer is not first
        wait_until(lambda: list(read.read(0.1)) or read.at_end, "the end")


@pytest.mark.slow
def test_who_asks_for_ends_or_identities_asks_through_another_client(broker: Forgetful, topic: str) -> None:
    """A client that is cut off would never answer again."""
    place = TopicPartition(topic, 0)
    ends, identities = Offsets(broker.cluster, ASK_S), TopicIds(broker.cluster, ASK_S)
    known = identities.read([topic])
    assert ends.written_ends([place]) == {place: 0}
    clients = (ends._consumers[WRITTEN], identities._admin)
    with broker.away():
        with pytest.raises(UnavailableError):
            ends.written_ends([place])
        with pytest.raises(UnavailableError):
            identities.read([topic])
    broker.forgets = False
    assert ends._consumers[WRITTEN] is not clients[0]
    assert identities._admin is not clients[1]
    wait_until(lambda: answered(lambda: ends.written_ends([place])) == {place: 0}, "the end")
    wait_until(lambda: answered(lambda: identities.read([topic])) == known, "the identity")


def answered(ask: Callable[[], object]) -> object:
    try:
        return ask()
    except UnavailableError:
        return None


@pytest.mark.slow
def test_a_slow_way_is_given_longer_each_time(broker: Forgetful, topic: str) -> None:
    """What takes longer than a silence would begin anew for ever."""
    now_s, changed = 0.0, [0.0]
    with closing(LongLivedConsumer(broker.cluster, topic, SILENT_S, lambda: now_s)) as read:
        read.begin({0: 0})
        with broker.away():
            while now_s < 24 * SILENT_S:
                before = read.consumer
                assert not list(read.read(0.0))
                if read.consumer is not before:
                    changed.append(now_s)
                now_s += SILENT_S / 2
        broker.forgets = False
    pauses = [after - before for before, after in pairwise(changed)]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 4 * pauses[0]


@pytest.mark.slow
def test_one_partition_is_silent_and_others_are_not(broker: Forgetful, topic: str) -> None:
    with closing(LongLivedConsumer(broker.cluster, topic, SILENT_S)) as read:
        read.begin({0: 0, 1: 0})
        first = read.consumer
        first.pause([Place(topic, 1)])
        write(broker.cluster, topic, b"b", partition=1)
        found: list[bytes] = []

        def comes() -> bool:
            write(broker.cluster, topic, b"a")
            found.extend(message.value() for message in read.read(0.1))
            return b"b" in found

        wait_until(comes, "what the other one holds")
        assert read.consumer is not first


def test_settings_that_are_refused_now_leave_the_client_as_it_is() -> None:
    def refuse() -> None:
        raise UsageError("the certificate is just being replaced")

    one = object()
    assert replacement(one, refuse) is one


def write(cluster: Cluster, topic: str, *values: bytes, partition: int = 0) -> None:
    writer = TransactionalWriter(cluster, f"{topic}-writer")
    writer.initialise()
    writer.write(topic, values, partition)


def taken(read: LongLivedConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []

    def more() -> bool:
        found.extend(message.value() for message in read.read(0.1))
        return len(found) >= count

    wait_until(more, f"{count} records")
    return found
