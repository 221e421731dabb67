"""Which milestones can still be proved, asked of a real broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics import commit_stream
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.adapters.topics.provable_milestones import provable, with_advice
from cutwater.core.errors import LostRecordsError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.topics import TopicSpec
from support.harness import wait_until
from support.protocol_samples import milestone

NUMBER = 6


@pytest.fixture
def told(broker: Any, unique: Callable[[str], str]) -> Callable[..., Milestone]:
    """A milestone by its epoch, whose source cut lies at that offset of a topic with NUMBER records."""
    source, changelog = unique("source"), unique("changelog")
    admin.create_topics(broker.cluster, [TopicSpec(source, 1, ()), TopicSpec(changelog, 1, ())])
    producer = broker.cluster.client(Producer, {"acks": "all"})
    for number in range(2 * NUMBER):
        producer.produce((source, changelog)[number % 2], b"value", partition=0)
    assert producer.flush(20) == 0
    places = [TopicPartition(source, 0), TopicPartition(changelog, 0)]
    evidence = LogCheck(broker.cluster).read_state(places).evidence

    def make(epoch: int, rows: int = 1, changelog: str = changelog) -> Milestone:
        cuts = {"source_cut": Cut.of_topic(source, [epoch]), "changelog_cut": Cut.of_topic(changelog, [rows])}
        return replace(milestone(epoch), **cuts, evidence=evidence)

    return make


def test_while_nothing_is_lost_the_newest_one_is_provable(broker: Any, told: Callable[..., Milestone]) -> None:
    """Up to the very end of both logs."""
    found = [told(epoch, epoch) for epoch in range(NUMBER + 1)]
    assert provable(broker.cluster, found) == ([], found[-1])
    assert provable(broker.cluster, []) == ([], None)


@pytest.mark.parametrize("beyond", range(1, 6))
def test_the_newest_one_below_the_loss_is_named(broker: Any, told: Callable[..., Milestone], beyond: int) -> None:
    """Wherever the loss lies, and with the verb that starts a generation from it."""
    found = [told(epoch) for epoch in range(NUMBER + beyond + 1)]
    asked = provable(broker.cluster, found)
    assert asked.newest == found[NUMBER]
    assert [one for one in asked.lost if "/0 has lost its end: offset" in one]
    assert f"'cutwater rollback --to {found[NUMBER].token}'" in asked.advise()


def test_of_a_changelog_that_is_gone_no_milestone_is_provable(
    broker: Any, told: Callable[..., Milestone], unique: Callable[[str], str]
) -> None:
    """Those of a generation before, whose changelog is there, still are."""
    gone = unique("gone")
    found = [told(0), told(1), told(2, changelog=gone)]
    asked = provable(broker.cluster, found)
    assert (asked.lost, asked.newest) == ([f"{gone} is not there any more"], found[1])
    lost = provable(broker.cluster, [told(NUMBER + 1), told(NUMBER + 2)])
    assert lost.newest is None
    assert "No milestone is complete any more" in lost.advise()


def test_whoever_stops_names_it_by_the_commit_stream(
    broker: Any, told: Callable[..., Milestone], unique: Callable[[str], str]
) -> None:
    """And says no more than what was lost where the brokers do not tell."""
    job, lost = unique("job"), LostRecordsError("it has lost its end")
    assert with_advice(lost, broker.cluster, job) is lost, "there is no commit stream"
    admin.create_topics(broker.cluster, [TopicSpec(topics.milestones(job), 1, ())])
    writer = TransactionalWriter(broker.cluster, job)
    writer.initialise()
    found = [told(NUMBER), told(NUMBER + 1)]
    writer.write(topics.milestones(job), [protocol_records.encode(one) for one in found])
    wait_until(lambda: len(commit_stream.milestones(broker.cluster, job)) == 2, "the milestones")
    attached = str(with_advice(lost, broker.cluster, job, attached=True))
    assert f"'cutwater restore JOBFILE --to {found[0].token}' builds its view" in attached
    assert "rollback" not in attached, "it would be refused"
    said = str(with_advice(lost, broker.cluster, job))
    assert said.startswith(f"{lost}. ")
    assert f"'cutwater rollback --to {found[0].token}'" in said
