"""Records of the protocol whose cuts are of thousands of partitions: more than Kafka's default for a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.writers.transactional_writer import Batch, TransactionalWriter
from cutwater.adapters.topics.commit_stream import values
from cutwater.core.output.position import nothing
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.log_evidence import TopicEvidence
from support.harness import wait_until
from support.protocol_samples import GENERATION, barrier, milestone

SOURCE, CHANGELOG = 20_000, 8_192
KAFKAS_DEFAULT = 1_048_588


def test_a_barrier_of_thousands_of_partitions_is_written_and_read(
    broker: Any, unique: Callable[[str], str]
) -> None:
    """With the leader of each partition; its milestone, and the publisher's position, which holds that."""
    job = unique("large")
    names = f"{job}.events", topics.changelog(job, GENERATION)
    cuts = {
        "source_cut": Cut.of_topic(names[0], [10_000_000_000 + one for one in range(SOURCE)]),
        "changelog_cut": Cut.of_topic(names[1], [10_000_000_000 + one for one in range(CHANGELOG)]),
        "evidence": (
            TopicEvidence(names[0], "PN2PfS87Ql2hX-Iqcsgv8Q", tuple(range(SOURCE))),
            TopicEvidence(names[1], "q6Vb1n0TQ8m4f0uGk3q2Lw", tuple(range(CHANGELOG))),
        ),
        "partition_rows": tuple(range(CHANGELOG)),
        "partition_digests": tuple(-(2**62) - one for one in range(CHANGELOG)),
    }
    told = replace(milestone(0), **cuts)
    position = replace(nothing(job, GENERATION, "updates avro"), milestone=protocol_records.encode(told))
    written = {
        topics.barriers(job): replace(barrier(0), **cuts),
        topics.milestones(job): told,
        topics.published(job): position,
    }
    owned = topics.generation_topics(job, GENERATION, 2)
    admin.create_topics(broker.cluster, [one for one in owned if one.name in written])
    writer = TransactionalWriter(broker.cluster, job)
    writer.initialise()
    for topic, record in written.items():
        value = protocol_records.encode(record)
        assert len(value) > KAFKAS_DEFAULT, "the fault must be there"
        writer.write_all([Batch(topic, 0, [{"key": b"k", "value": value}])])
        read = wait_until(lambda: list(values(broker.cluster, topic, 0)), f"{topic}")  # noqa: B023
        assert [protocol_records.decode(one) for one in read] == [record]
