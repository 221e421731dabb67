"""The queries of `cutwater doctor` to a cluster. Only the clock check writes, to a topic of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.api_versions import broker_version
from cutwater.adapters.kafka.client import (
    TIMEOUT_S,
    bounds,
    explain,
    make_consumer,
    partition_count,
    wait_for_broker,
)
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.undatable_records import undatable
from cutwater.adapters.topics import commit_stream
from cutwater.core.checks.cluster import BrokerVersion, ClusterFacts
from cutwater.core.checks.replication import Replication
from cutwater.core.checks.source_topic import Position
from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.topic_settings import FoundTopic
from cutwater.core.protocol.topics import TopicSpec

ANSWER_S = 10.0


def read_brokers(cluster: Cluster) -> ClusterFacts:
    """Return brokers and version, or the error."""
    try:
        wait_for_broker(cluster, ANSWER_S)
        return ClusterFacts(cluster.bootstrap, brokers=admin.brokers(cluster), version=_version(cluster))
    except CutwaterError as error:
        return ClusterFacts(cluster.bootstrap, problem=str(error))


def _version(cluster: Cluster) -> BrokerVersion | None:
    with suppress(CutwaterError):
        return broker_version(cluster)
    return None


def read_topics(
    cluster: Cluster, facts: ClusterFacts, source: str, specs: Sequence[TopicSpec], copies: Replication
) -> ClusterFacts:
    """Return `facts` with the topics: those that exist, and whether the others could be created."""
    found: dict[str, FoundTopic] = {}
    refused: dict[str, str] = {}
    for name in (*([source] if source else []), *(one.name for one in specs)):
        try:
            found |= admin.describe_topics(cluster, [name], operations=True)
        except CutwaterError as error:
            refused[name] = str(error)
    missing = [one for one in specs if one.name not in found and one.name not in refused]
    return replace(facts, found=found, refused={**refused, **admin.not_creatable(cluster, missing, copies)})


def position(cluster: Cluster, job: str, source: str, now_ms: int) -> Position | None:
    """Return the job's position; None if it never ran or cannot be read."""
    try:
        newest = commit_stream.milestones(cluster, job, limit=1)
    except CutwaterError:
        return None
    if not newest:
        return None
    milestone = newest[-1][0]
    consumer = make_consumer(cluster)
    try:
        count = partition_count(cluster, source)
        first = Cut.of_topic(source, (bounds(consumer, source, number)[0] for number in range(count)))
    except CutwaterError:
        return None
    finally:
        consumer.close()
    return Position(milestone.source_cut, first, now_ms - milestone.committed_ms)


def undatable_of(cluster: Cluster, facts: ClusterFacts, source: str) -> list[str]:
    """Return what `undatable` returns; empty if the topic does not exist or cannot be read."""
    with suppress(CutwaterError):
        return undatable(cluster, [source] if source in facts.found else [])
    return []


def with_clock(cluster: Cluster, facts: ClusterFacts, topic: str) -> ClusterFacts:
    """Return `facts` with the broker's clock, from a record with its timestamp. Creates and deletes `topic`."""
    spec = TopicSpec(topic, 1, (("message.timestamp.type", "LogAppendTime"), ("retention.ms", "60000")))
    try:
        admin.create_topics(cluster, [spec])
        try:
            return replace(facts, clock_ms=_clock_ms(cluster, topic))
        finally:
            admin.delete_topics(cluster, [topic])
    except CutwaterError as error:
        return replace(facts, clock_problem=str(error))


def _clock_ms(cluster: Cluster, topic: str) -> int:
    """Return the broker's clock minus ours, from the second of two records, which needs no new connection."""
    stamped: list[int] = []
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            stamped.append(int(message.timestamp()[1]))

    producer = cluster.client(Producer, {"linger.ms": 0, "acks": 1, "message.timeout.ms": 10_000})
    for _ in range(2):
        before = time.time()
        producer.produce(topic, b"clock", on_delivery=delivered)
        producer.flush(TIMEOUT_S)
        after = time.time()
    if failed:
        raise explain(KafkaException(failed[0]), f"writing to {topic}")
    if not stamped:
        raise UnavailableError(f"{topic}: no record was acknowledged within {TIMEOUT_S:.0f} s")
    return round(stamped[-1] - (before + after) / 2 * 1_000)
