"""Three brokers that lose what they acknowledged: kill -9, a replaced disk, and an unclean election.

Whoever reads names what is lost, or shows what is right.
"""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.adapters.topics.own_writes import OwnLog
from cutwater.client import committed
from cutwater.core.errors import CutwaterError, LostRecordsError, UnavailableError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.records import Barrier, Milestone
from cutwater.core.protocol.topics import UNCLEAN, TopicSpec
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.processes.child import Child
from cutwater.views.query.view import State
from cutwater_spark.epoch.row_proof import ProvedRows
from support.kafka.brokers import one_cluster
from support.views.changelogs import GENERATION, Following, Rows, Writing, make_job, now_ms, until
from support.views.publishing import pieces, publishing, wait_published
from support.views.ways import sales

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
T = TypeVar("T")
PLACE = re.compile(r"(/|partitions? )\d+.*offset", re.DOTALL)
NAMED_S = 60.0
"""Within so long a loss must be named."""
PARTITIONS = 3
KEEPER, MEMBERS = 1, (2, 3, 4)
"""The keeper is the controller, and has the topics that nobody may lose here; the members lose theirs."""
LOST = {
    "changelog": (".changelog.",),
    "changelog and stream": (".changelog.", ".milestones"),
    "output": (".output", ".published"),
    "source": (".events",),
}
"""By what is lost, parts of the topics' names."""
_QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "2500",
    "replica.fetch.wait.max.ms": "200",
    "transaction.state.log.num.partitions": "2",
    UNCLEAN: "true",
}


@dataclass
class Three:
    """Brokers by their number."""

    brokers: dict[int, Broker]
    children: dict[int, Child]

    @property
    def cluster(self) -> Any:
        return self.brokers[KEEPER].cluster

    def start(self, number: int) -> None:
        self.children[number].start()

    def restore(self) -> None:
        """Start who does not run: a test that fails leaves some dead, and the next one is not about them."""
        for number, child in self.children.items():
            if child.poll() is not None:
                self.start(number)
        self.await_all()

    def await_all(self) -> None:
        """Until each of them answers, and has caught up."""
        for number, broker in self.brokers.items():
            until(broker.ready, lambda at=number: f"broker {at} to answer; {self.children[at].log_tail()}")

    def in_sync(self, topic: str, wanted: set[int]) -> bool:
        """Have all partitions of a topic just these replicas in sync, and a leader among them?"""
        try:
            found = AdminClient(self.cluster.librdkafka()).list_topics(topic, timeout=5).topics[topic]
        except KafkaException:
            return False
        return all(set(one.isrs) == wanted and one.leader in wanted for one in found.partitions.values())

    def create(self, specs: list[TopicSpec], lost: Callable[[str], bool]) -> None:
        """Topics that the members have copies of, each of them some leaders; or that the keeper has alone."""
        asked = [
            NewTopic(
                one.name,
                one.partitions,
                replica_assignment=[
                    [MEMBERS[(number + at) % 3] for at in range(3)] if lost(one.name) else [KEEPER]
                    for number in range(one.partitions)
                ],
                config=dict(one.config) | {"min.insync.replicas": "1", UNCLEAN: "true"},
            )
            for one in specs
        ]
        client = AdminClient(self.cluster.librdkafka())
        for future in client.create_topics(asked).values():
            future.result(30)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, kafka_jars: list[Path]) -> Iterator[Three]:
    with one_cluster(tmp_path_factory.mktemp("three"), kafka_jars, len(MEMBERS) + 1, _QUICK) as brokers:
        found = Three(brokers, {number: one.child() for number, one in brokers.items()})
        try:
            for number in brokers:
                found.start(number)
            found.await_all()
            found.create([TopicSpec("__transaction_state", 2, (("cleanup.policy", "compact"),))], lambda _: False)
            yield found
        finally:
            for one in found.children.values():
                one.stop(10)


class Job:
    """A job whose milestones carry evidence, as a driver's do, and that knows what was true at each of them."""

    def __init__(self, three: Three, folder: Path, lost: str) -> None:
        """`lost`: a key of LOST, what the members have copies of."""
        job, _ = make_job(folder, PARTITIONS)
        source = topics.events(job.topic, PARTITIONS)
        owned = [*topics.generation_topics(job.name, GENERATION, PARTITIONS, job.output), source]
        three.create(owned, lambda name: any(part in name for part in LOST[lost]))
        self.three, self.job = three, job
        self.folder, self.publishes = folder / "publisher", lost == "output"
        self.writing = Writing(three.cluster, job)
        self.witness = LogCheck(three.cluster)
        self.places = [
            TopicPartition(one.name, number)
            for one in owned
            if any(part in one.name for part in LOST[lost])
            for number in range(one.partitions)
        ]
        """What is lost in part."""
        self.read = [
            TopicPartition(one, at) for one in (self.writing.topic, job.topic) for at in range(PARTITIONS)
        ]
        self.source = Producer({**three.cluster.librdkafka(), "linger.ms": 5})
        self.ended: dict[TopicPartition, int] = {}
        self.epochs = 0

    def epoch(self) -> Milestone:
        rows = sales(self.epochs)
        self.epochs += 1
        for at in range(PARTITIONS):
            self.source.produce(self.job.topic, b"event", partition=at)
        assert self.source.flush(20) == 0
        written = self.writing.rows(rows, self.epochs - 1)
        look = self.witness.read_state(self.read)
        cut = Cut(tuple(one for one in look.cut if one[0].topic == self.job.topic))
        return self.writing.milestone(rows, written, evidence=look.evidence, source_cut=cut)

    def publish(self) -> None:
        """Up to the newest milestone, by a publisher that ends behind it."""
        newest = self.writing.last
        with publishing(self.three.cluster, self.job, self.folder):
            wait_published(self.three.cluster, self.job, newest.sequence if newest else 0)

    def gone(self) -> dict[TopicPartition, int]:
        """The partitions that are shorter than right before the loss."""
        ends = Offsets(self.three.cluster).written_ends(self.places)
        return {place: ends[place] for place, end in self.ended.items() if ends[place] < end}

    def lost(self) -> dict[TopicPartition, int]:
        """Partitions of the changelog that end below the newest cut."""
        ends = Offsets(self.three.cluster).written_ends(self.places)
        return {place: ends[place] for place, offset in self.writing.cut.items() if ends[place] < offset}

    def write_on(self) -> None:
        """Somebody who does not look writes rows of epochs to come, until the logs are longer than before.

        With a producer of his own: the old one would notice by its numbers.
        """
        self.writing.renew()
        for number in range(20):
            if not self.lost():
                return
            self.writing.rows(sales(100 + number), self.epochs + number)
        raise AssertionError(f"still short: {self.lost()}")


def hidden(job: Job) -> str:
    """Why nobody can read the commit stream to its end, as commit-signal says; empty where all can.

    The end of a transaction may be lost, and its records not: then they are seen by nobody.
    """
    stream = TopicPartition(topics.milestones(job.job.name), 0)
    try:
        OwnLog(job.three.cluster, [stream], "commit-signal").begin()
    except UnavailableError as error:
        return str(error)
    return ""


def barrier_of(milestone: Milestone) -> Barrier:
    return Barrier(**{one.name: getattr(milestone, one.name) for one in fields(Barrier)})


def lose(three: Three, job: Job, luck: random.Random) -> list[int]:
    """One member acknowledges alone, dies, and its disk is replaced. Returns the epochs of each stage."""
    members = list(MEMBERS)
    luck.shuffle(members)
    first, second, last = members
    stages = [luck.randrange(1, 3), luck.randrange(0, 2), luck.randrange(1, 3)]
    for _ in range(stages[0]):
        job.epoch()
    three.children[first].kill()
    topic = job.places[0].topic
    until(lambda: three.in_sync(topic, {second, last}), "the first one to be out")
    for _ in range(stages[1]):
        job.epoch()
    three.children[second].kill()
    until(lambda: three.in_sync(topic, {last}), "the last one to be alone")
    for _ in range(stages[2]):
        job.epoch()
    if job.publishes:
        job.publish()
    job.ended = Offsets(three.cluster).written_ends(job.places)
    three.children[last].kill()
    shutil.rmtree(three.brokers[last].data_dir / "log")
    for number in luck.choice([(first, second), (second, first)]):
        three.start(number)
        if luck.random() < 0.5:
            until(three.brokers[number].ready, f"broker {number} to answer")
    three.start(last)
    three.await_all()
    until(lambda: three.in_sync(topic, set(MEMBERS)), "all copies to be in sync again")
    return stages


def shown_or_named(job: Job, folder: Path) -> str:
    """What a view that begins with nothing comes to: "" for what is right, else why it stopped."""
    view = Following(job.three.cluster, job.job, folder, now_ms, stall_s=5.0)
    try:
        newest = max(job.writing.by_sequence)

        def done() -> bool:
            return view.error is not None or view.view.status.state is State.STOPPED or view.view.ready

        until(done, "the view to show or to stop", NAMED_S)
        if view.view.milestone is None:
            return str(view.error or view.view.status.reason)
        sequence, rows = view.rows()
        assert rows == job.writing.by_sequence[sequence], f"sequence {sequence} of {newest} is shown wrongly"
        return ""
    finally:
        with suppress(CutwaterError):
            view.end()


def in_time(look: Callable[[], T]) -> T:
    """What is lost must be named within a minute, by whoever looks."""
    began_s = time.monotonic()
    try:
        return look()
    finally:
        assert time.monotonic() - began_s < NAMED_S


def told_or_named(job: Job) -> str:
    """The same of a client of the changelog, which holds all rows in memory."""
    state: Rows = {}
    try:
        for milestone in committed(job.job, job.three.cluster, source="changelog", idle_s=2.0):
            state |= pieces(milestone)
            assert state == job.writing.by_sequence[milestone.token.sequence], f"{milestone.token} is told wrongly"
    except CutwaterError as error:
        return str(error)
    return ""


def published_or_named(job: Job) -> str:
    """The same of a publisher that starts: "" where the output holds all milestones rightly behind it."""
    try:
        job.publish()
    except CutwaterError as error:
        return str(error)
    state: Rows = {}
    for milestone in committed(job.job, job.three.cluster, idle_s=2.0):
        state |= pieces(milestone)
        assert state == job.writing.by_sequence[milestone.token.sequence], (
            f"{milestone.token} is published wrongly"
        )
    return ""


@pytest.mark.parametrize("seed", range(20))
def test_what_is_lost_is_named_and_nothing_wrong_is_shown(three: Three, tmp_path: Path, seed: int) -> None:
    """By the driver's look, a new view, the client and the publisher: what is lost changes with the seed."""
    luck, lost = random.Random(seed), list(LOST)[seed % len(LOST)]
    three.restore()
    job = Job(three, tmp_path / "job", lost)
    stages = lose(three, job, luck)
    gone = job.gone()
    assert gone, f"the fault must have happened: {stages}"
    newest = job.writing.last
    assert newest is not None
    if ".changelog." in LOST[lost]:
        if luck.random() < 0.5:
            job.write_on()
        require_named(job, newest, gone)
        changelog_lost(job, tmp_path)
    elif lost == "source":
        require_named(job, newest, gone)
    if lost == "output":
        named = in_time(lambda: published_or_named(job))
        assert not named or any(
            one in named for one in (topics.output(job.job.name), topics.published(job.job.name))
        )
    if lost in ("output", "source"):
        assert (shown_or_named(job, tmp_path / "view"), told_or_named(job)) == ("", "")
    job.writing.close()


def require_named(job: Job, newest: Milestone, gone: dict[TopicPartition, int]) -> None:
    """The driver's looks, before it reads or writes and when it is idle, name each partition."""
    rows, barrier = ProvedRows(job.three.cluster, job.writing.topic, PARTITIONS), barrier_of(newest)
    looks: list[Callable[[], object]] = [
        lambda: rows.begin_epoch(barrier, newest.source_cut),
        lambda: rows.check_idle(barrier),
    ]
    for look in looks:
        with pytest.raises(LostRecordsError) as said:
            in_time(look)
        for place, end in gone.items():
            if place in job.read:
                assert f"{place.topic}/{place.partition} has lost its end: offset" in str(said.value), (
                    f"from {end} on"
                )


def changelog_lost(job: Job, folder: Path) -> None:
    """View and client name it, or where the stream has lost its end too, show what is right."""
    with_stream = any(place.topic == topics.milestones(job.job.name) for place in job.places)
    if with_stream and (named := hidden(job)):
        assert "/0: a transaction is open at offset" in named
        assert told_or_named(job) == ""  # what is seen of the stream is right
        return
    for named in (shown_or_named(job, folder / "view"), in_time(lambda: told_or_named(job))):
        assert (named == "") == with_stream, named
        assert not named or (job.writing.topic in named and PLACE.search(named)), named
