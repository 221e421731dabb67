"""Settings of the origin's topics that are changed after their copies were made: the copies follow."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.kafka.admin import create_topics, delete_topics, describe_topics, set_configs
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UsageError
from cutwater.core.mirror.gaps import ANEW
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import from_origin
from cutwater.core.protocol.recovery_log import Fact, ProcessIdentity, Recovery, StartRecord
from cutwater.core.protocol.topic_settings import FoundTopic
from cutwater.mirror.metrics import Metrics
from cutwater.mirror.topics import config_sync
from cutwater.mirror.topics.config_sync import LOOK_S, TopicConfigSync
from cutwater.mirror.topics.origin import Origin
from cutwater.mirror.topics.topic_copy import CopiedTopic
from cutwater.operations.regions.mirror_control import control_mirror
from support.regions.mirroring import (
    ORIGIN,
    Events,
    Running,
    arrivals,
    arrived_once,
    context_of,
    epoch,
    make,
    mirroring,
    require_held,
    wait_arrived,
    wait_stopped,
)
from support.views.changelogs import Writing, now_ms, until
from support.views.snapshots import Told

FAST = {"clock_s": lambda: 20 * time.monotonic()}
"""The mirror looks twice a second."""
DAY_MS, WEEK_MS = "86400000", "604800000"


def settings(cluster: Cluster, topic: str) -> dict[str, str]:
    return dict(describe_topics(cluster, [topic])[topic].config)


def counted(mirror: Running, topic: str) -> float:
    told = mirror.metrics.registry.get_sample_value("cutwater_mirror_settings_taken_over_total", {"topic": topic})
    return told or 0.0


@pytest.mark.slow
def test_a_raise_of_the_origins_settings_is_taken_over(broker: Any, writing: Writing, events: Events) -> None:
    """While the mirror runs, and when it comes back; a shorter retention here than there is raised."""
    own, copy = broker.cluster, from_origin(events.topic, ORIGIN)
    set_configs(writing.cluster, events.topic, {"retention.ms": DAY_MS, "retention.bytes": "1000000000"})
    with mirroring(own, writing.cluster, writing.job, **FAST) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))
        assert settings(own, copy)["retention.ms"] == DAY_MS
        assert counted(mirror, copy) == 0
        set_configs(writing.cluster, events.topic, {"retention.ms": WEEK_MS})
        set_configs(writing.cluster, writing.topic, {"max.message.bytes": "50000000"})
        mirror.until(lambda: settings(own, copy)["retention.ms"] == WEEK_MS, "the copy to follow")
        mirror.until(
            lambda: settings(own, writing.topic)["max.message.bytes"] == "50001024", "the changelog's copy"
        )
        mirror.until(lambda: (counted(mirror, copy), counted(mirror, writing.topic)) == (1, 1), "to be counted")
        set_configs(own, copy, {"retention.ms": DAY_MS})
        mirror.until(lambda: settings(own, copy)["retention.ms"] == WEEK_MS, "the origin's again")
    set_configs(writing.cluster, events.topic, {"retention.ms": "-1", "retention.bytes": "2000000000"})
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 2))
        assert mirror.mirror.copier.stopped == {}
        assert (settings(own, copy)["retention.ms"], settings(own, copy)["retention.bytes"]) == (
            "-1",
            "2000000000",
        )
    for one in arrivals(own, writing.job):
        require_held(writing, own, one)


@pytest.mark.slow
def test_a_purge_in_the_origin_is_said_once_and_takes_nothing_here(
    broker: Any, writing: Writing, events: Events
) -> None:
    """A generation here may read the copy, which is all that is left of the events."""
    own, copy = broker.cluster, from_origin(events.topic, ORIGIN)
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))
        followed = dict(mirror.mirror.copier._followed)
    before = settings(own, copy)
    set_configs(writing.cluster, events.topic, {"retention.ms": "1000", "cleanup.policy": "compact,delete"})
    told = look(own, writing, followed, looks=2)
    assert settings(own, copy) == before
    ((level, about),) = [(level, about) for level, text, about in told.lines if text == "not taken over"]
    assert (level, about["topic"]) == ("warning", copy)
    assert f"retention.ms: -1, in {ORIGIN} 1000 (kafka-configs.sh" in about["left"]
    assert f"cleanup.policy: delete, in {ORIGIN} compact,delete" in about["left"]


@pytest.mark.slow
def test_what_this_region_keeps_is_left_alone(broker: Any, writing: Writing, events: Events) -> None:
    """The rest follows all the same; and it begins with the origin's."""
    own, copy = broker.cluster, from_origin(events.topic, ORIGIN)
    kept = {"kept": ("retention.ms",), **FAST}
    with mirroring(own, writing.cluster, writing.job, **kept) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))
        set_configs(own, copy, {"retention.ms": DAY_MS, "retention.bytes": "1000000000"})
        mirror.until(lambda: settings(own, copy)["retention.bytes"] == "-1", "the rest to follow")
        assert settings(own, copy)["retention.ms"] == DAY_MS
    with mirroring(own, writing.cluster, writing.job, **kept) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 2))
    assert settings(own, copy)["retention.ms"] == DAY_MS


@pytest.mark.slow
def test_larger_records_come_with_the_setting_that_lets_them(
    broker: Any, writing: Writing, events: Events
) -> None:
    """At once, before the mirror has looked: by this clock it never does while it copies."""
    own = broker.cluster
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))
        set_configs(writing.cluster, events.topic, {"max.message.bytes": "4000000"})
        producer = Producer({**writing.cluster.librdkafka(), "message.max.bytes": 4_000_000})
        for partition in range(events.partitions):
            producer.produce(events.topic, random.Random(partition).randbytes(3_000_000), partition=partition)
        assert producer.flush(20) == 0
        began_s = time.monotonic()
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 2))
        assert mirror.mirror.copier.stopped == {}
        assert time.monotonic() - began_s < 4 * LOOK_S
    for one in arrivals(own, writing.job):
        require_held(writing, own, one)


@pytest.mark.slow
def test_small_records_come_in_batches(broker: Any, writing: Writing, events: Events) -> None:
    """Of a topic that takes no large ones: the mirror's batches are larger than the origin's were."""
    set_configs(writing.cluster, events.topic, {"max.message.bytes": "20000"})
    producer = Producer({**writing.cluster.librdkafka(), "batch.size": 10_000})
    for number in range(300):
        producer.produce(events.topic, random.Random(number).randbytes(9_000), partition=0)
    assert producer.flush(20) == 0
    own = broker.cluster
    with mirroring(own, writing.cluster, writing.job) as mirror:
        arrived = wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))
        assert mirror.mirror.copier.stopped == {}
    require_held(writing, own, arrived)


@pytest.mark.slow
def test_a_topic_made_anew_decides_nothing_about_the_copy(broker: Any, writing: Writing, events: Events) -> None:
    """Neither while it is copied nor at the next start: what is left of the events is only there."""
    own, copy = broker.cluster, from_origin(events.topic, ORIGIN)
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))
        followed = dict(mirror.mirror.copier._followed)
    before = settings(own, copy)
    delete_topics(writing.cluster, [events.topic])
    create_topics(writing.cluster, [topics.events(events.topic, events.partitions)])
    anew = {"retention.ms": DAY_MS, "max.message.bytes": "9000000", "cleanup.policy": "compact"}
    set_configs(writing.cluster, events.topic, anew)
    look(own, writing, followed)
    assert settings(own, copy) == before
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_stopped(mirror, events.topic, ANEW)
        assert settings(own, copy) == before


def look(
    own: Cluster,
    writing: Writing,
    followed: dict[str, CopiedTopic],
    looks: int = 1,
    origin: Origin | None = None,
    metrics: Metrics | None = None,
) -> Told:
    """Beside no copying."""
    told, at_s = Told(), [0.0]
    reports = {"log": told, "metrics": metrics or Metrics(), "clock_s": lambda: at_s[0]}
    context = context_of(own, writing.cluster, writing.job, **reports)
    one = TopicConfigSync(replace(context, origin=origin) if origin else context)
    for _ in range(looks):
        at_s[0] += LOOK_S
        one.sync(followed)
        until(lambda: one._query._pending is None or one._query.answered, "the look")
        one.sync(followed)
        until(lambda: one._taking is None or one._taking.done(), "the copies to follow")
    return told


class Refusing(Origin):
    """One topic's settings may not be read."""

    def __init__(self, cluster: Cluster, refused: str) -> None:
        super().__init__(cluster)
        self.refused = refused

    def all_described(self, names: Collection[str]) -> dict[str, FoundTopic]:
        if self.refused in names:
            raise UsageError(f"reading the settings of topic {self.refused}: this user may not")
        return super().all_described(names)


@pytest.mark.slow
def test_settings_that_are_not_known_are_said_once_and_hide_no_others(
    broker: Any, writing: Writing, events: Events
) -> None:
    """A shorter lag that nobody heeds would make arrivals that are not whole."""
    own, metrics = broker.cluster, Metrics()
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))
        followed = dict(mirror.mirror.copier._followed)
    set_configs(writing.cluster, writing.topic, {"min.compaction.lag.ms": "60000"})
    refusing = Refusing(writing.cluster, events.topic)
    told = look(own, writing, followed, looks=3, origin=refusing, metrics=metrics)
    assert followed[writing.topic].spared.lag_ms == 60_000
    said = [(level, about["topic"]) for level, text, about in told.lines if text == "settings not looked at"]
    assert said == [("warning", events.topic)]
    assert metrics.registry.get_sample_value("cutwater_mirror_settings_missed_total") == 3


@pytest.mark.slow
def test_a_setting_that_brokers_forbid_keeps_no_other_back(
    broker: Any, writing: Writing, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger records would be refused for the sake of a retention."""
    own, copy = broker.cluster, from_origin(events.topic, ORIGIN)
    set_configs(writing.cluster, events.topic, {"retention.ms": DAY_MS})
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))
        followed = dict(mirror.mirror.copier._followed)
    set_configs(writing.cluster, events.topic, {"retention.ms": WEEK_MS, "max.message.bytes": "9000000"})

    def forbidding(cluster: Cluster, topic: str, wanted: Mapping[str, str]) -> None:
        if "retention.ms" in wanted:
            raise UsageError(f"changing retention.ms of topic {topic}: a policy forbids it")
        set_configs(cluster, topic, wanted)

    monkeypatch.setattr(config_sync, "set_configs", forbidding)
    told = look(own, writing, followed, looks=2)
    assert (settings(own, copy)["retention.ms"], settings(own, copy)["max.message.bytes"]) == (DAY_MS, "9001024")
    assert [text for _, text, _ in told.lines] == ["settings not taken over", "settings taken over"]


@pytest.mark.slow
def test_a_value_that_brokers_do_not_take_is_the_users(broker: Any, writing: Writing, events: Events) -> None:
    """No outage: asking again does not help."""
    with pytest.raises(UsageError, match="the brokers reject a value"):
        set_configs(writing.cluster, events.topic, {"retention.ms": "-7"})


@pytest.mark.slow
def test_where_the_mirror_may_not_it_says_so_once_and_copies_on(
    broker: Any, writing: Writing, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, copy, told = broker.cluster, from_origin(events.topic, ORIGIN), Told()
    set_configs(writing.cluster, events.topic, {"retention.ms": DAY_MS})
    asked = []

    def refused(_cluster: Cluster, topic: str, _settings: Any) -> None:
        asked.append(topic)
        raise UsageError(f"changing retention.ms of topic {topic}: this user may not")

    monkeypatch.setattr(config_sync, "set_configs", refused)
    one = Running(make(own, writing.cluster, writing.job, log=told, **FAST))
    try:
        wait_arrived(one, own, writing.job, epoch(writing, events, 1))
        set_configs(writing.cluster, events.topic, {"retention.ms": WEEK_MS})
        one.until(lambda: len(asked) > 2, "three tries")
        wait_arrived(one, own, writing.job, epoch(writing, events, 2))
        assert one.mirror.copier.stopped == {}
    finally:
        one.end()
    said = [(level, about["topic"]) for level, text, about in told.lines if text == "settings not taken over"]
    assert said == [("warning", copy)]
    assert settings(own, copy)["retention.ms"] == DAY_MS


@pytest.mark.slow
def test_a_shorter_lag_counts_at_once_and_a_longer_one_from_the_next_start(
    broker: Any, writing: Writing, events: Events
) -> None:
    """What compaction may take there decides which milestones are whole here."""
    own = broker.cluster
    with mirroring(own, writing.cluster, writing.job, **FAST) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))
        copier = mirror.mirror.copier
        followed = copier._followed[writing.topic]
        assert followed.spared.lag_ms == int(DAY_MS)
        set_configs(writing.cluster, writing.topic, {"min.compaction.lag.ms": "60000"})
        mirror.until(lambda: followed.spared.lag_ms == 60_000, "the shorter lag")
        set_configs(writing.cluster, writing.topic, {"min.compaction.lag.ms": DAY_MS})
        before = mirror.metrics.registry.get_sample_value("cutwater_mirror_rounds_total") or 0
        mirror.until(
            lambda: (mirror.metrics.registry.get_sample_value("cutwater_mirror_rounds_total") or 0) > before + 100,
            "some looks",
        )
        assert followed.spared.lag_ms == 60_000
        control_mirror(own, writing.job.name, ORIGIN, True, now_ms())
        mirror.until(lambda: mirror.mirror.arriving.paused, "the pause")
        copier._look_again(followed)
        mirror.until(lambda: writing.topic in copier._followed, "the topic to be looked at again")
        assert copier._followed[writing.topic].spared.lag_ms == 60_000


@pytest.mark.slow
def test_the_start_of_a_process_without_slot_0_names_the_arrival(
    broker: Any, writing: Writing, events: Events
) -> None:
    """It announces none, and copies behind the one that another process has announced."""
    own, job = broker.cluster, writing.job
    arrived = arrived_once(own, writing, events)
    starts: list[Recovery] = []
    start = StartRecord(
        ProcessIdentity(job.name, Generation(1, "there"), "mirror", ""), lambda: 0, lambda: 0.0, starts.append
    )
    with mirroring(own, writing.cluster, job, account=start, slots=(1, 2)) as mirror:
        mirror.until(lambda: starts, "the start to be told")
    (told,) = starts
    assert told.decision == f"copy {ORIGIN} after arrival {arrived.token}"
    assert Fact("arrival", str(arrived.token)) in told.found
