"""Evidence on a real broker: what it tells of leaders and topics, and that nothing lost is said to be lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.fetch.leader_epochs import LeaderEpochs
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.errors import LostRecordsError, UnavailableError
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.topics import TopicSpec

NUMBER = 4


@pytest.fixture
def topic(broker: Any, unique: Callable[[str], str]) -> str:
    """With NUMBER records in each of two partitions."""
    name = unique("witness")
    make(broker.cluster, name)
    return name


def make(cluster: Cluster, name: str) -> None:
    admin.create_topics(cluster, [TopicSpec(name, 2, ())])
    producer = cluster.client(Producer, {"acks": "all"})
    for number in range(2 * NUMBER):
        producer.produce(name, b"value", partition=number % 2)
    assert producer.flush(20) == 0


def places(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(2)]


def test_a_leader_tells_where_the_records_of_leaders_end(broker: Any, topic: str) -> None:
    """Of itself: at the end; of one that never was: nothing is known."""
    epoch = Offsets(broker.cluster).ends_with_epochs(places(topic))[TopicPartition(topic, 0)].leader_epoch
    asked = broker.cluster.reader(LeaderEpochs, topic)
    assert epoch >= 0
    assert asked.ends({0: epoch, 1: epoch}) == {0: NUMBER, 1: NUMBER}
    assert asked.ends({0: epoch + 1}) == {0: -1}
    assert asked.ends({}) == {}


def test_of_a_topic_that_is_not_there_nobody_answers(broker: Any, unique: Callable[[str], str]) -> None:
    """After the patience, and with the topic's name."""
    name = unique("nowhere")
    with pytest.raises(UnavailableError, match=name):
        broker.cluster.reader(LeaderEpochs, name, patience_s=1.0).ends({0: 0})


def test_what_is_there_is_not_lost(broker: Any, topic: str) -> None:
    """At the cut, below it, and where evidence knows an older leader's number than the one of now."""
    witness = LogCheck(broker.cluster)
    look = witness.read_state(places(topic))
    assert look.cut == Cut.of_topic(topic, [NUMBER, NUMBER])
    assert witness.find_losses(look.evidence, look.cut) == []
    assert witness.find_losses(look.evidence, Cut.of_topic(topic, [1, 0])) == []
    assert witness.find_losses((), Cut.of_topic(topic, [99, 99])) == [], "nothing is said without evidence"


def test_a_log_that_ends_below_the_cut_is_named(broker: Any, topic: str) -> None:
    """Topic, partition and offsets."""
    witness = LogCheck(broker.cluster)
    evidence = witness.read_state(places(topic)).evidence
    with pytest.raises(LostRecordsError, match=rf"milestone x .*{topic}/1 has lost its end: offsets 4 to 6"):
        witness.require(evidence, Cut.of_topic(topic, [NUMBER, NUMBER + 3]), "milestone x")


def test_a_leader_of_whom_the_log_knows_nothing_is_named(broker: Any, topic: str) -> None:
    """Its number is above that of now: a log that is younger than the evidence."""
    witness = LogCheck(broker.cluster)
    look = witness.read_state(places(topic))
    (one,) = look.evidence
    young = (one._replace(leader_epochs=(one.leader_epochs[0] + 1, one.leader_epochs[1])),)
    assert witness.find_losses(young, look.cut) == [
        f"{topic}/0 does not know the leader that wrote up to offset {NUMBER}"
    ]


def test_a_topic_made_anew_with_as_many_records_is_named(broker: Any, topic: str) -> None:
    """Offsets and leaders are the same again: only the identity is another one."""
    witness = LogCheck(broker.cluster)
    look = witness.read_state(places(topic))
    admin.delete_topics(broker.cluster, [topic])
    make(broker.cluster, topic)
    (told,) = witness.find_losses(look.evidence, look.cut)
    assert told.startswith(f"{topic} was deleted and recreated")
    assert "of partition 0" in told
