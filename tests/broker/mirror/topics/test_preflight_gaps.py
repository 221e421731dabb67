"""What would be a silent gap stops its topic, and only that: told with its cause and range, counted, repaired."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from cutwater.adapters.kafka.admin import create_topics, delete_topics, set_configs
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import DivergenceError, FencedError, UsageError
from cutwater.core.mirror.gaps import ANEW, BROKEN, GONE, LOST, PARTITIONS, REFUSED, REPLACED, UNPLACED
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.topics import TopicSpec
from cutwater.mirror.resync.resync import resync
from support.regions.mirroring import (
    Events,
    Running,
    arrivals,
    epoch,
    make,
    mirroring,
    positions,
    require_held,
    sold,
    wait_arrived,
    wait_copied,
    wait_stopped,
)
from support.views.changelogs import Writing, now_ms, until


def cut_off(cluster: Cluster, topic: str, partition: int, before: int) -> None:
    """Delete records, as a retention does."""
    client = AdminClient(cluster.librdkafka())

    def done() -> bool:
        [asked] = client.delete_records([TopicPartition(topic, partition, before)]).values()
        try:
            asked.result(20)
        except KafkaException as error:
            # A broker may not know the topic's policy yet, and takes it for a compacted one.
            if error.args[0].code() != KafkaError.POLICY_VIOLATION:
                raise
            return False
        return True

    until(done, f"the records of {topic} below {before} to be deleted")


@pytest.mark.slow
def test_events_that_were_deleted_before_they_were_copied(broker: Any, writing: Writing, events: Events) -> None:
    """Away for longer than the origin keeps events: the exact range, and no arrival until somebody acts."""
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
    next_ = positions(broker.cluster, writing.job)[events.topic, 1].next
    epoch(writing, events, 2)
    cut_off(writing.cluster, events.topic, 1, next_ + 4)
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        text = wait_stopped(mirror, events.topic, LOST)
        assert f"partition 1 begins at {next_ + 4}: offsets {next_} to {next_ + 3} were deleted" in text
        wait_copied(mirror, broker.cluster, writing)
    assert len(arrivals(broker.cluster, writing.job)) == 1


@pytest.mark.slow
def test_a_topic_that_is_made_anew(broker: Any, writing: Writing, events: Events) -> None:
    """While the mirror runs, and filled again at once: not a record of the new one is copied behind the old.

    The mirror's clock stands still meanwhile: it does not ask whether the topic is the same.
    """
    asks = threading.Event()
    clock = {"clock_s": lambda: time.monotonic() if asks.is_set() else 0.0}
    with mirroring(broker.cluster, writing.cluster, writing.job, **clock) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        before = positions(broker.cluster, writing.job)
        delete_topics(writing.cluster, [events.topic])
        create_topics(writing.cluster, [topics.events(events.topic, events.partitions)])
        events.produce(200)
        writing.epoch(sold(1, 2), source_cut=events.cut())
        wait_copied(mirror, broker.cluster, writing)
        time.sleep(0.5)
        assert mirror.mirror.copier.stopped == {}
        asks.set()
        assert "recreated" in wait_stopped(mirror, events.topic, ANEW)
    after = positions(broker.cluster, writing.job)
    assert all(after[place].next == one.next for place, one in before.items() if place[0] == events.topic)
    assert len(arrivals(broker.cluster, writing.job)) == 1


@pytest.mark.slow
def test_a_topic_that_is_gone(broker: Any, writing: Writing, events: Events) -> None:
    """Believed after a while, which this mirror's clock makes short."""
    fast = {"clock_s": lambda: 10 * time.monotonic()}
    with mirroring(broker.cluster, writing.cluster, writing.job, **fast) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        delete_topics(writing.cluster, [events.topic])
        wait_stopped(mirror, events.topic, GONE)


@pytest.mark.slow
def test_a_changelog_that_was_pruned_there(broker: Any, writing: Writing, events: Events) -> None:
    """Of a generation that was left: no gap, now or at a later start, and how far behind stays known."""
    own, job, left = broker.cluster, writing.job, writing.topic
    fast = {"clock_s": lambda: 10 * time.monotonic()}
    with mirroring(own, writing.cluster, job, **fast) as mirror:
        wait_arrived(mirror, own, job, epoch(writing, events, 1))
        wait_arrived(mirror, own, job, writing.promote(2, source_cut=events.cut()).sequence)
        delete_topics(writing.cluster, [left])
        mirror.until(lambda: left in mirror.mirror.copier.dropped, "the changelog to be dropped")
        wait_arrived(mirror, own, job, epoch(writing, events, 2))
        assert mirror.mirror.copier.stopped == {}
    with mirroring(own, writing.cluster, job, **fast) as mirror:
        mirror.until(lambda: left in mirror.mirror.copier.dropped, "the changelog to be dropped again")
        registry = mirror.metrics.registry
        mirror.until(lambda: registry.get_sample_value("cutwater_mirror_lag_records") == 0, "a lag that is known")
        assert mirror.mirror.copier.stopped == {}


@pytest.mark.slow
def test_more_partitions_in_the_origin(broker: Any, writing: Writing, events: Events) -> None:
    """Found though nothing comes in the partitions that are read: events of new ones would be skipped silently."""
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        client = AdminClient(writing.cluster.librdkafka())
        for done in client.create_partitions([NewPartitions(events.topic, 4)]).values():
            done.result(20)
        assert "has 4 partitions in the origin, but its copy has 3" in wait_stopped(
            mirror, events.topic, PARTITIONS
        )
        writing.epoch(sold(1, 2), source_cut=writing.last.source_cut if writing.last else None)
        wait_copied(mirror, broker.cluster, writing)


@pytest.mark.slow
def test_a_stream_that_was_pruned_past_the_mirror(broker: Any, writing: Writing, events: Events) -> None:
    """Milestones that were never copied: said, not skipped."""
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
    for amount in (2, 3, 4):
        epoch(writing, events, amount)
    stream = topics.milestones(writing.job.name)
    next_ = positions(broker.cluster, writing.job)[stream, 0].next
    cut_off(writing.cluster, stream, 0, next_ + 2)
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        assert f"begins at {next_ + 2}: offsets {next_} to {next_ + 1} were" in wait_stopped(mirror, stream, LOST)
        wait_copied(mirror, broker.cluster, writing)


@pytest.mark.slow
def test_a_stream_that_contradicts_itself(broker: Any, writing: Writing, events: Events) -> None:
    """A fork in the origin: no arrival any more, and the rest is copied on."""
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        writing.epoch(sold(1, 2), source_cut=events.cut(), parent_hash=bytes(32))
        assert "fork" in wait_stopped(mirror, topics.milestones(writing.job.name), BROKEN)
        epoch(writing, events, 3)
        wait_copied(mirror, broker.cluster, writing)
    assert len(arrivals(broker.cluster, writing.job)) == 1


@pytest.mark.slow
def test_records_without_a_position(broker: Any, writing: Writing, events: Events) -> None:
    """Something else writes where a copy should begin: left alone."""
    target = mirror_records.from_origin(events.topic, "local")
    create_topics(broker.cluster, [TopicSpec(target, 3, ())])
    producer = Producer(broker.cluster.librdkafka())
    producer.produce(target, b"mine", partition=2)
    assert producer.flush(20) == 0
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        assert f"{target}/2 ends at offset 1 and there is no position" in wait_stopped(
            mirror, events.topic, UNPLACED
        )
        epoch(writing, events, 1)
        mirror.until(lambda: (writing.topic, 0) in positions(broker.cluster, writing.job), "the changelog")


@pytest.mark.slow
def test_a_copy_that_was_replaced(broker: Any, writing: Writing, events: Events) -> None:
    """Its topic was deleted here: what is left of it is not gone on with."""
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
    delete_topics(broker.cluster, [mirror_records.from_origin(events.topic, "local")])
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_stopped(mirror, events.topic, REPLACED)


@pytest.mark.slow
def test_somebody_else_writes_into_a_copy(broker: Any, writing: Writing, events: Events) -> None:
    """The offsets would be wrong from there on: nothing more is committed, and the mirror ends."""
    running = Running(make(broker.cluster, writing.cluster, writing.job))
    try:
        found = wait_arrived(running, broker.cluster, writing.job, epoch(writing, events, 1))
        producer = Producer(broker.cluster.librdkafka())
        producer.produce(mirror_records.from_origin(events.topic, "local"), b"mine", partition=0)
        assert producer.flush(20) == 0
        epoch(writing, events, 2)
        until(lambda: running.error is not None, "the mirror to find it")
    finally:
        with pytest.raises(DivergenceError, match="another process writes there"):
            running.end()
    assert arrivals(broker.cluster, writing.job) == [found]
    require_held(writing, broker.cluster, found)


@pytest.mark.slow
def test_a_record_that_is_against_a_setting_of_the_copy(broker: Any, writing: Writing, events: Events) -> None:
    """Too far ahead of the brokers' clocks here: its topic stops, and the others are copied on."""
    own, target = broker.cluster, mirror_records.from_origin(events.topic, "local")
    kept = {"kept": (topics.TIMESTAMP_AHEAD,)}
    with mirroring(own, writing.cluster, writing.job, **kept) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))
        set_configs(own, target, {topics.TIMESTAMP_AHEAD: "60000"})
        events.produce(3, timestamp=now_ms() + 3_600_000)
        assert target in wait_stopped(mirror, events.topic, REFUSED)
        epoch(writing, events, 2)
        wait_copied(mirror, own, writing)


@pytest.mark.slow
def test_resync_begins_a_copy_anew(broker: Any, writing: Writing, events: Events) -> None:
    """After a gap: the mirror is fenced, the copy made from the start of the log, and milestones arrive again."""
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
    next_ = positions(broker.cluster, writing.job)[events.topic, 1].next
    epoch(writing, events, 2)
    cut_off(writing.cluster, events.topic, 1, next_ + 4)
    running = Running(make(broker.cluster, writing.cluster, writing.job))
    try:
        wait_stopped(running, events.topic, LOST)
        resync(broker.cluster, writing.job.name, "local", events.topic, now_ms)
        epoch(writing, events, 3)
        until(lambda: running.error is not None, "the mirror to be fenced")
    finally:
        with pytest.raises(FencedError):
            running.end()
    assert arrivals(broker.cluster, writing.job) == []
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, 3)
    found = arrivals(broker.cluster, writing.job)
    assert [one.sequence for one in found] == [2, 3], "of milestone 1 the origin has not all events behind its cut"
    for one in found:
        require_held(writing, broker.cluster, one)


@pytest.mark.slow
def test_resync_of_what_is_not_copied(broker: Any, writing: Writing, events: Events) -> None:
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        with pytest.raises(UsageError, match="nothing of other is copied from local"):
            resync(broker.cluster, writing.job.name, "local", "other", now_ms)
