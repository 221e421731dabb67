"""The positions of a mirror that is stuck in an open transaction, beside brokers that are dead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import mirror_topics
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.mirror_records import Mirrored
from cutwater.core.protocol.topics import TopicSpec
from support.regions.mirror_samples import golden_mirror_record


@pytest.fixture
def job(broker: Any, unique: Callable[[str], str]) -> str:
    name = unique("stuck")
    admin.create_topics(
        broker.cluster, [TopicSpec(mirror_records.positions(name), 1, (("cleanup.policy", "compact"),))]
    )
    return name


def writing(cluster: Cluster, job: str, one: Mirrored) -> Producer:
    """A producer with a transaction open that holds a position."""
    settings = {"transactional.id": f"{job}.{one.partition}", "transaction.timeout.ms": 60_000}
    producer: Producer = cluster.client(Producer, settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(mirror_records.positions(job), protocol_records.encode(one), one.key)
    assert producer.flush(30) == 0
    return producer


def test_an_open_transaction_is_waited_for_no_longer_than_said(broker: Any, job: str) -> None:
    """What is committed before it is told; behind it, all is once it has ended, as by fencing the mirror."""
    position = golden_mirror_record("mirrored")
    assert isinstance(position, Mirrored)
    first, second = replace(position, job=job, partition=0), replace(position, job=job, partition=1)
    writing(broker.cluster, job, first).commit_transaction(30)
    stuck = writing(broker.cluster, job, second)
    assert mirror_topics.positions(broker.cluster, job, patience_s=0).every == [first]
    stuck.commit_transaction(30)
    # The broker writes the marker behind its answer.
    assert mirror_topics.positions(broker.cluster, job, patience_s=30).every == [first, second]
    assert mirror_topics.positions(broker.cluster, job).every == [first, second]
