"""What is no gap stops nothing, what stops a topic stops no other, and the mirror hears what is said."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from cutwater.adapters.kafka.admin import set_configs
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.mirror.gaps import BROKEN, REFUSED, UNPLACED
from cutwater.core.protocol import mirror_records, topics
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor
from cutwater.mirror.copier import WAIT_S
from cutwater.mirror.topics import config_sync
from cutwater.mirror.topics.origin import Origin
from cutwater.operations.regions.mirror_control import control_mirror
from support.regions.mirroring import (
    Events,
    Running,
    arrivals,
    arrived_once,
    epoch,
    mirroring,
    positions,
    require_held,
    wait_arrived,
    wait_copied,
    wait_stopped,
)
from support.views.changelogs import Writing, make_job, now_ms


@pytest.mark.slow
@pytest.mark.parametrize("away", [False, True], ids=["says that there is none", "does not answer"])
def test_one_word_that_a_topic_does_not_exist_is_not_believed(
    broker: Any, writing: Writing, events: Events, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    """A broker that is just back says so of every topic for a moment: at a start, and in the middle.

    This mirror's clock makes it ask ten times a second.
    """
    asked, armed, real = [], threading.Event(), Origin.identities

    def forgetful(self: Origin, names: Any) -> Any:
        if names and armed.is_set():
            asked.append(names)
            if len(asked) == 3:
                armed.clear()
            if away:
                raise UnavailableError("the origin is away")
            return {}
        return real(self, names)

    monkeypatch.setattr(Origin, "identities", forgetful)
    armed.set()
    with mirroring(broker.cluster, writing.cluster, writing.job, clock_s=lambda: 10 * time.monotonic()) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        assert len(asked) == 3
        asked.clear()
        armed.set()
        for number in (2, 3, 4):
            wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, number))
        mirror.until(lambda: len(asked) == 3, "three questions in the middle")
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 5))
        assert mirror.mirror.copier.stopped == {}
    for one in arrivals(broker.cluster, writing.job):
        require_held(writing, broker.cluster, one)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, kafka_jars: list[Path]) -> Iterator[Cluster]:
    """A broker of the origin's that lets anybody do what no ACL forbids."""
    overrides = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    one = Broker(tmp_path_factory.mktemp("guarded"), find_java(), kafka_jars, overrides=overrides)
    with Supervisor([one.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        yield one.cluster


def forbid(cluster: Cluster, topic: str, what: str) -> None:
    """Nobody may do this with a topic any more; reading is left, where that is another thing."""
    rules = {AclOperation.READ: AclPermissionType.ALLOW, AclOperation[what]: AclPermissionType.DENY}
    made = [
        AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, kind)
        for operation, kind in rules.items()
    ]
    client = AdminClient(cluster.librdkafka())
    for done in client.create_acls(made).values():
        done.result(20)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["READ", "DESCRIBE"])
def test_a_right_that_is_missing_in_the_origin(broker: Any, guarded: Cluster, tmp_path: Path, what: str) -> None:
    """It stops the topic, in the middle and at a start; the others are copied on."""
    writing = Writing(guarded, make_job(tmp_path)[0])
    events = Events(writing)
    with mirroring(broker.cluster, guarded, writing.job) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        cut = events.cut()
        forbid(guarded, events.topic, what)
        assert "may not" in wait_stopped(mirror, events.topic, REFUSED)
        writing.epoch([], source_cut=cut)
        wait_copied(mirror, broker.cluster, writing)
    with mirroring(broker.cluster, guarded, writing.job) as mirror:
        assert "may not" in wait_stopped(mirror, events.topic, REFUSED)
        sequence = writing.epoch([], source_cut=cut).sequence
        wait_arrived(mirror, broker.cluster, writing.job, sequence)
        wait_copied(mirror, broker.cluster, writing)
    writing.close()


def may_not(_cluster: Cluster, topic: str, _settings: Any) -> None:
    raise UsageError(f"changing topic {topic}: this user may not")


@pytest.mark.slow
def test_a_record_that_the_topic_here_does_not_take(
    broker: Any, writing: Writing, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That topic is refused, where the mirror may not change it; what was with it in the transaction is copied on,
    and nothing of it comes twice. Once the mirror may, its start is enough."""
    own, target = broker.cluster, mirror_records.from_origin(events.topic, "local")
    producer = Producer(writing.cluster.librdkafka())
    with monkeypatch.context() as held, mirroring(own, writing.cluster, writing.job) as mirror:
        held.setattr(config_sync, "set_configs", may_not)
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))
        set_configs(own, target, {"max.message.bytes": "2000"})
        control_mirror(own, writing.job.name, "local", True, now_ms())  # all that follows comes in one round
        mirror.until(lambda: mirror.mirror.arriving.paused, "the pause")
        for partition in range(events.partitions):
            producer.produce(events.topic, random.Random(1).randbytes(9_000), partition=partition)
        assert producer.flush(20) == 0
        for number in (2, 3):
            epoch(writing, events, number)
        control_mirror(own, writing.job.name, "local", False, now_ms())
        assert "larger than the topic" in wait_stopped(mirror, events.topic, REFUSED)
        wait_copied(mirror, own, writing)
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 4))
    assert [one.sequence for one in arrivals(own, writing.job)] == [1, 2, 3, 4]
    for one in arrivals(own, writing.job):
        require_held(writing, own, one)


@pytest.mark.slow
def test_a_slow_look_at_one_topic_holds_up_no_other(
    broker: Any, writing: Writing, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers may be long about one; the others are copied meanwhile."""
    answer, real = threading.Event(), Origin.described

    def slow(self: Origin, name: str) -> Any:
        if name == events.topic:
            answer.wait(60)
        return real(self, name)

    monkeypatch.setattr(Origin, "described", slow)
    sequence = epoch(writing, events, 1)
    with mirroring(broker.cluster, writing.cluster, writing.job) as mirror:
        mirror.until(lambda: (writing.topic, 0) in positions(broker.cluster, writing.job), "the changelog's copy")
        sequence = epoch(writing, events, 2)
        wait_copied(mirror, broker.cluster, writing)
        assert not answer.is_set()
        assert arrivals(broker.cluster, writing.job) == []
        answer.set()
        wait_arrived(mirror, broker.cluster, writing.job, sequence)


@pytest.mark.slow
def test_a_pause_is_heard_though_the_stream_is_broken(broker: Any, writing: Writing, events: Events) -> None:
    """Nothing arrives any more, and the copies go on: who wants them to rest may say so."""
    own, job = broker.cluster, writing.job
    with mirroring(own, writing.cluster, job) as mirror:
        wait_arrived(mirror, own, job, epoch(writing, events, 1))
        writing.epoch([], source_cut=events.cut(), parent_hash=bytes(32))
        wait_stopped(mirror, topics.milestones(job.name), BROKEN)
        for paused in (True, False):
            control_mirror(own, job.name, "local", paused, now_ms())
            mirror.until(lambda paused=paused: mirror.mirror.arriving.paused == paused, f"paused: {paused}")
        epoch(writing, events, 3)
        wait_copied(mirror, own, writing)


def test_with_nothing_to_copy_it_rests(broker: Any, origin: Cluster, tmp_path: Path) -> None:
    """No topic is there yet: rounds wait as they do while nothing comes."""
    with mirroring(broker.cluster, origin, make_job(tmp_path)[0]) as mirror:
        mirror.until(lambda: rounds(mirror) > 0, "the first round")
        began, before = time.monotonic(), rounds(mirror)
        mirror.until(lambda: rounds(mirror) >= before + 40, "forty rounds")
        assert time.monotonic() - began >= 30 * WAIT_S


def rounds(mirror: Running) -> float:
    return mirror.metrics.registry.get_sample_value("cutwater_mirror_rounds_total") or 0.0


def put(cluster: Cluster, topic: str, name: str, end: Callable[[Producer], None] | None) -> None:
    """A record of somebody else's; in a transaction where `end` is given, which ends it."""
    producer = Producer({**cluster.librdkafka(), **({"transactional.id": name} if end else {})})
    if end:
        producer.init_transactions(20)
        producer.begin_transaction()
    producer.produce(topic, b"mine", partition=0)
    assert producer.flush(20) == 0
    if end:
        end(producer)


@pytest.mark.slow
@pytest.mark.parametrize("end", [None, lambda one: one.commit_transaction(20)], ids=["plain", "transaction"])
def test_foreign_records_in_a_copy_are_found_at_the_next_start(
    broker: Any, writing: Writing, events: Events, end: Callable[[Producer], None] | None
) -> None:
    """No position accounts for them: copied on behind them, the copy would hold what the origin never had."""
    own, job = broker.cluster, writing.job
    arrived_once(own, writing, events)
    put(own, mirror_records.from_origin(events.topic, "local"), f"{job.name}-other", end)
    with mirroring(own, writing.cluster, job) as mirror:
        assert "records that no position accounts for" in wait_stopped(mirror, events.topic, UNPLACED)
        epoch(writing, events, 2)
        wait_copied(mirror, own, writing)
    assert len(arrivals(own, job)) == 1


@pytest.mark.slow
def test_what_was_aborted_in_a_copy_is_no_record(broker: Any, writing: Writing, events: Events) -> None:
    """A mirror that was killed leaves such things; while a transaction is open nobody knows, and it waits."""
    own, job = broker.cluster, writing.job
    arrived_once(own, writing, events)
    put(
        own,
        mirror_records.from_origin(events.topic, "local"),
        f"{job.name}-a",
        lambda one: one.abort_transaction(20),
    )
    open_ones: list[Producer] = []
    put(own, mirror_records.from_origin(events.topic, "local"), f"{job.name}-b", open_ones.append)
    with mirroring(own, writing.cluster, job) as mirror:
        epoch(writing, events, 2)
        wait_copied(mirror, own, writing)
        before = positions(own, job)[events.topic, 1]
        assert mirror.mirror.copier.stopped == {}
        open_ones[0].abort_transaction(20)
        found = wait_arrived(mirror, own, job, 2)
        assert positions(own, job)[events.topic, 1].records > before.records
    require_held(writing, own, found)
