"""Bugs that other mirrors shipped; docs/MIRRORING.md says which test holds each here."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from cutwater.adapters.kafka.admin import create_topics, delete_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.mirror.gaps import ANEW, BROKEN
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.mirror.service import Mirror
from cutwater.mirror.topics.origin import Origin
from support.regions.mirroring import (
    ORIGIN,
    Events,
    Running,
    arrivals,
    context_of,
    epoch,
    mirroring,
    positions,
    read_all,
    require_held,
    wait_arrived,
    wait_copied,
    wait_stopped,
)
from support.views import changelogs
from support.views.changelogs import Sold, Writing, make_job

THERE = "there"


@pytest.mark.slow
def test_cuts_lie_where_the_records_are(broker: Any, writing: Writing) -> None:
    """Markers, aborted records and restarts make offsets drift apart: each cut goes to its record all the same."""
    events = Events(writing)
    for number in range(4):
        with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
            for part in range(3):
                events.transaction(f"{writing.job.name}-{number}-{part}", 7, commit=part != 1)
                events.produce(10)
                wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, number))
    found = arrivals(broker.cluster, writing.job)
    for one in found:
        require_held(writing, broker.cluster, one)
    assert writing.last is not None
    theirs, ours = writing.last.source_cut.as_dict().values(), found[-1].source_cut.as_dict().values()
    assert sorted(theirs) != sorted(ours), "they did drift apart"


@pytest.mark.slow
def test_a_stream_of_a_newer_version_does_not_end_the_copying(broker: Any, writing: Writing) -> None:
    """No milestone arrives until the mirror is updated; events, which only this copy may have soon, still come."""
    events, stream = Events(writing), topics.milestones(writing.job.name)
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        events.produce(10)
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        newer = Producer(writing.cluster.librdkafka())
        newer.produce(stream, value=bytes(range(40)), partition=0)
        assert newer.flush(20) == 0
        assert "newer version" in wait_stopped(mirror, stream, BROKEN)
        events.produce(10)
        ends = events.cut()
        mirror.until(lambda: reached(broker.cluster, writing, ends), "the events")
    assert len(arrivals(broker.cluster, writing.job)) == 1


def reached(own: Cluster, writing: Writing, ends: Cut) -> bool:
    """Are the copies as far as the origin's source was?"""
    found = positions(own, writing.job)
    return all(found[place.topic, place.partition].next == end for place, end in ends)


@pytest.mark.slow
def test_quiet_topics_hold_nothing_up(broker: Any, writing: Writing) -> None:
    """Of partitions that never get a record nothing is waited for, nor of those that have gone quiet."""
    events = Events(writing)
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        for _ in range(3):
            wait_arrived(mirror, broker.cluster, writing.job, writing.epoch([], source_cut=events.cut()).sequence)
        events.produce(1)
        for _ in range(3):
            wait_arrived(
                mirror,
                broker.cluster,
                writing.job,
                writing.epoch([Sold("a", 1, 1)], source_cut=events.cut()).sequence,
            )
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, writing.epoch([], source_cut=events.cut()).sequence)
    assert [one.sequence for one in arrivals(broker.cluster, writing.job)] == list(range(1, 8))
    for one in arrivals(broker.cluster, writing.job):
        require_held(writing, broker.cluster, one)


@pytest.mark.slow
def test_a_topic_made_anew_while_the_mirror_was_away(broker: Any, writing: Writing) -> None:
    """And filled beyond the position: told by its identity, not by its length."""
    events = Events(writing)
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
    delete_topics(writing.cluster, [events.topic])
    create_topics(writing.cluster, [topics.events(events.topic, events.partitions)])
    events.produce(200)
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        assert "recreated" in wait_stopped(mirror, events.topic, ANEW)
        writing.epoch([Sold("a", 1, 1)], source_cut=events.cut())
        wait_copied(mirror, broker.cluster, writing)
    assert len(arrivals(broker.cluster, writing.job)) == 1


@pytest.mark.slow
def test_an_arrival_waits_for_the_slowest_topic(
    broker: Any, writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was one epoch in the origin is one here: milestones and changelog alone are no arrival."""
    events, go_on, real = Events(writing), threading.Event(), Origin.described

    def late(self: Origin, name: str) -> Any:
        if name == events.topic:
            go_on.wait(60)
        return real(self, name)

    monkeypatch.setattr(Origin, "described", late)
    last = [epoch(writing, events, number) for number in (1, 2)][-1]
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        mirror.until(lambda: mirror.mirror.arriving.ledger.pending == 2, "both milestones")
        mirror.until(lambda: (writing.topic, 0) in positions(broker.cluster, writing.job), "the changelog")
        wait_copied(mirror, broker.cluster, writing)
        assert arrivals(broker.cluster, writing.job) == []
        go_on.set()
        wait_arrived(mirror, broker.cluster, writing.job, last)
    for one in arrivals(broker.cluster, writing.job):
        require_held(writing, broker.cluster, one)


@pytest.mark.slow
def test_values_in_confluent_framing_need_no_registry(broker: Any, writing: Writing, tmp_path: Path) -> None:
    """The milestones name the schema, so nobody asks what the number in a value means here."""
    events = Events(writing)
    writing.state_header = b"\0\0\0\0\x2a"
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 5))
    for partition in range(writing.job.shards.partitions):
        copied = read_all(broker.cluster, writing.topic, partition)
        assert [one.value for one in copied] == [
            one.value for one in read_all(writing.cluster, writing.topic, partition)
        ]
        assert all((one.value or b"").startswith(writing.state_header) for one in copied)


@pytest.mark.slow
def test_two_mirrors_of_each_other_make_no_loop(
    broker: Any, origin: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same job in both regions: each copies what the other has written itself, once."""
    job, _ = make_job(tmp_path)
    here = Writing(origin, job)
    monkeypatch.setattr(changelogs, "GENERATION", Generation(1, THERE))
    there = Writing(broker.cluster, job)
    both = [(here, Events(here)), (there, Events(there))]
    back = Running(Mirror(context_of(origin, broker.cluster, job, THERE), job))
    try:
        with mirroring(broker.cluster, origin, job) as forth:
            for number in (1, 2, 3):
                for one, events in both:
                    events.produce(20 * number)
                    one.epoch([Sold(f"s{number}", 1, number)], source_cut=events.cut())
                wait_arrived(forth, broker.cluster, job, number)
                back.until(lambda number=number: _arrived_back(origin, job) >= number, "the way back")
            wait_copied(forth, broker.cluster, here)
    finally:
        back.end()
    for one, source, target, name in (
        (here, origin, broker.cluster, ORIGIN),
        (there, broker.cluster, origin, THERE),
    ):
        for topic in (job.topic, one.topic, topics.milestones(job.name)):
            for partition in range(1 if topic.endswith("milestones") else job.shards.partitions):
                wrote = [record.value for record in read_all(source, topic, partition)]
                copy = mirror_records.target(job.name, topic, name)
                assert [record.value for record in read_all(target, copy, partition)] == wrote, topic
    for cluster in (origin, broker.cluster):
        named = [
            one for one in AdminClient(cluster.librdkafka()).list_topics(timeout=20).topics if job.name in one
        ]
        assert not [one for one in named if one.count(".from-") > 1], "no copy of a copy"
    assert [one.sequence for one in arrivals(broker.cluster, job)] == [1, 2, 3]
    for one in arrivals(broker.cluster, job):
        require_held(here, broker.cluster, one)


def _arrived_back(cluster: Cluster, job: Any) -> int:
    return len(read_all(cluster, mirror_records.arrivals(job.name, THERE), 0))
