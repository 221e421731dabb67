"""Dead letters produced again on a real broker: the same bytes, once each, whoever crashes or races."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.rejected_events import dead_letters
from cutwater.cli.report import iso
from cutwater.core.driver.rejected_events import EventPosition, Letter, Listed
from cutwater.core.errors import FencedError
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.operations.replay_dead_letters import HEADER, Replayer, batches
from support.protocol_samples import GENERATION, milestone

_times = itertools.count(1_700_000_000_000)


class Desk:
    """One job's dead letters, written by hand: `count` events of partition 1, listed in epoch 0 by attempt 1."""

    def __init__(
        self, cluster: Cluster, name: str, count: int, value_bytes: int = 10, written_ms: int = 1_700_000_000_000
    ) -> None:
        self.written_ms = written_ms
        self.cluster, self.name, self.source = cluster, name, f"{name}.events"
        ensure_topics(cluster, [*topics.generation_topics(name, GENERATION, 2), topics.events(self.source, 2)])
        self.values = [bytes([number % 256]) * value_bytes for number in range(count)]
        settings = {"message.max.bytes": 10_000_000, "enable.idempotence": True}
        producer = Producer({**cluster.librdkafka(), **settings})
        for offset, value in enumerate(self.values):
            key = {"generation": str(GENERATION), "topic": self.source, "partition": 1, "offset": offset}
            producer.produce(
                topics.dead_letters(name),
                key=protocol_codec("dead_letter_key").encode(key),
                value=protocol_codec("dead_letter").encode(self._letter(value)),
                partition=offset % 2,
            )
        assert producer.flush(20) == 0
        signal = TransactionalWriter(cluster, topics.signal_id(name))
        signal.initialise()
        told = milestone(0, job=name, rejected=count)
        signal.write(topics.milestones(name), [protocol_records.encode(told)])

    def _letter(self, value: bytes) -> dict[str, Any]:
        return {
            **{"job": self.name, "generation": str(GENERATION), "attempt": 1, "epoch": 0, "reason": "undecodable"},
            **{"event_key": b"k", "event_value": value, "event_written_ms": self.written_ms},
            "event_headers": [{"key": "trace", "value": b"7f"}, {"key": "empty", "value": None}],
        }

    def letters(self) -> list[Letter]:
        found = dead_letters(self.cluster, self.name)
        assert found.problems == []
        return found.entries

    def produced(self) -> list[Message]:
        """What a `read_committed` consumer finds on the source's partitions."""
        consumer, found = make_consumer(self.cluster), []
        for partition in range(2):
            if bounds(consumer, self.source, partition)[1]:
                found += list(read_range(consumer, self.source, partition, 0))
        consumer.close()
        return found

    def replayer(self, now_ms: Callable[[], int] = lambda: next(_times)) -> Replayer:
        return Replayer(self.cluster, self.name, self.source, now_ms)


@pytest.fixture
def desk(broker: Any, unique: Callable[[str], str]) -> Desk:
    return Desk(broker.cluster, unique("desk"), 450)


def test_events_are_produced_again_as_they_were_and_once(desk: Desk) -> None:
    """Key, value, headers and partition are the event's; the letter says where it went."""
    replayer = desk.replayer()
    gone = replayer.replay(desk.letters())
    found = desk.produced()
    assert sorted(bytes(one.value()) for one in found) == sorted(desk.values)
    for one in found:
        headers = one.headers()
        assert headers[:2] == [("trace", b"7f"), ("empty", None)]
        assert (headers[2][0], len(headers)) == (HEADER, 3)
        assert (one.key(), one.partition()) == (b"k", 1)
        topic, partition, offset = headers[2][1].decode().rsplit("/", 2)
        assert desk.values[int(offset)] == one.value()
        assert gone[EventPosition(topic, int(partition), int(offset))] == EventPosition(
            desk.source, 1, one.offset()
        )
    letters = desk.letters()
    assert len(letters) == 450, "no letter is deleted"
    assert {one.event: one.replayed for one in letters} == gone
    replayer.close()


@pytest.mark.slow
def test_a_replay_that_is_taken_over_in_the_middle_leaves_no_trace(desk: Desk) -> None:
    """Events produced and not yet marked when another process takes over are not there for any reader."""
    fenced: list[Replayer] = []

    def take_over() -> int:  # asked for between the events and their marks
        fenced.append(desk.replayer())
        return next(_times)

    older = desk.replayer(take_over)
    with pytest.raises(FencedError, match="newer process has taken over"):
        older.replay(desk.letters())
    assert len(fenced) == 1, "the fault happened"
    assert desk.produced() == []
    assert {one.replayed for one in desk.letters()} == {None}
    gone = fenced[0].replay(desk.letters())
    assert len(gone) == len(desk.produced()) == 450


def test_a_letter_of_the_largest_size_is_produced_again(broker: Any, unique: Callable[[str], str]) -> None:
    """An event as large as its topic takes: it and its letter both fit."""
    desk = Desk(broker.cluster, unique("large"), 2, value_bytes=1_048_000)
    gone = desk.replayer().replay(desk.letters())
    assert len(gone) == 2
    assert [len(one.value()) for one in desk.produced()] == [1_048_000] * 2
    assert None not in {one.replayed for one in desk.letters()}


def test_batches_are_bounded() -> None:
    """By number and by bytes; one letter above the bound goes alone; none is left out."""
    by = Listed(Generation(1, "local"), 1, 0)

    def letter(offset: int, size: int | None) -> Letter:
        return Letter(EventPosition("t", 0, offset), by, "too large", None, size, 0, None, (0, offset))

    sizes = [10 * 2**20, 10 * 2**20, 90 * 2**20, None, *[1] * 500]
    made = list(batches([letter(offset, size) for offset, size in enumerate(sizes)]))
    assert [len(one) for one in made] == [1, 1, 1, 200, 200, 101]
    assert [one.at[1] for batch in made for one in batch] == list(range(len(sizes)))
    assert list(batches([])) == []


@pytest.mark.slow
def test_a_letter_dated_in_microseconds_is_listed_and_replayed(broker: Any, unique: Callable[[str], str]) -> None:
    """A timestamp is whatever a producer gave: a year beyond 9999 hides no letter and stops no replay."""
    mistaken = 1_700_000_000_000_000
    desk = Desk(broker.cluster, unique("dated"), 2, written_ms=mistaken)
    assert {one.written_ms for one in desk.letters()} == {mistaken}
    assert iso(mistaken) == "1700000000000000 ms"
    desk.replayer().replay(desk.letters())
    assert len(desk.produced()) == 2
    assert all(one.replayed for one in desk.letters())
