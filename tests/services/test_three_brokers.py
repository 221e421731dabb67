"""Three brokers that lose what they acknowledged: kill -9, a replaced disk, and an unclean election.

Whoever reads names what is lost, or shows what is right.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from brokers import one_cluster
from changelogs import GENERATION, Following, Rows, Writing, make_job, now_ms, until
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from publishing import pieces
from ways import sales

from cutwater.adapters.ends import Ends
from cutwater.adapters.own_log import OwnLog
from cutwater.adapters.witness import Witness
from cutwater.client import committed
from cutwater.core import topics
from cutwater.core.cuts import TopicPartition
from cutwater.core.errors import CutwaterError, LostRecordsError, UnavailableError
from cutwater.core.records import Barrier, Milestone
from cutwater.core.topics import UNCLEAN, TopicSpec
from cutwater.local.broker import Broker
from cutwater.local.children import Child
from cutwater.views.view import State
from cutwater_spark.proving import ProvedRows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
NAMED_S = 60.0
"""Within so long a loss must be named."""
PARTITIONS = 3
KEEPER, MEMBERS = 1, (2, 3, 4)
"""The keeper is the controller, and has the topics that nobody may lose here; the members lose theirs."""
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

    def await_all(self) -> None:
        """Until each of them answers, and has caught up."""
        for number, broker in self.brokers.items():
            until(broker.ready, f"broker {number} to answer; {self.children[number].log_tail()}")

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

    def __init__(self, three: Three, folder: Path, lost: Callable[[str], bool]) -> None:
        job, _ = make_job(folder, PARTITIONS)
        owned = topics.owned(job.name, GENERATION, PARTITIONS, job.output)
        three.create(owned, lost)
        self.three, self.job = three, job
        self.writing = Writing(three.cluster, job)
        self.witness = Witness(three.cluster)
        self.places = [TopicPartition(self.writing.topic, number) for number in range(PARTITIONS)]
        self.epochs = 0

    def epoch(self) -> Milestone:
        rows = sales(self.epochs)
        self.epochs += 1
        written = self.writing.rows(rows, self.epochs - 1)
        return self.writing.milestone(rows, written, evidence=self.witness.look(self.places).evidence)

    def lost(self) -> dict[TopicPartition, int]:
        """Partitions of the changelog that end below the newest cut."""
        ends = Ends(self.three.cluster).written(self.places)
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
    until(lambda: three.in_sync(job.writing.topic, {second, last}), "the first one to be out")
    for _ in range(stages[1]):
        job.epoch()
    three.children[second].kill()
    until(lambda: three.in_sync(job.writing.topic, {last}), "the last one to be alone")
    for _ in range(stages[2]):
        job.epoch()
    three.children[last].kill()
    shutil.rmtree(three.brokers[last].data_dir / "log")
    for number in luck.choice([(first, second), (second, first)]):
        three.start(number)
        if luck.random() < 0.5:
            until(three.brokers[number].ready, f"broker {number} to answer")
    three.start(last)
    three.await_all()
    until(lambda: three.in_sync(job.writing.topic, set(MEMBERS)), "all copies to be in sync again")
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


@pytest.mark.parametrize("seed", range(20))
def test_what_is_lost_is_named_and_nothing_wrong_is_shown(three: Three, tmp_path: Path, seed: int) -> None:
    """By the driver's look, a new view, and the client; with the commit stream lost too, or kept."""
    luck = random.Random(seed)
    with_stream = luck.random() < 0.5

    def lost(name: str) -> bool:
        return ".changelog." in name or (with_stream and name.endswith(".milestones"))

    job = Job(three, tmp_path / "job", lost)
    stages = lose(three, job, luck)
    gone = job.lost()
    assert gone, f"the fault must have happened: {stages}"
    newest = job.writing.last
    assert newest is not None
    if luck.random() < 0.5:
        job.write_on()
    rows = ProvedRows(three.cluster, job.writing.topic, PARTITIONS)
    with pytest.raises(LostRecordsError) as said:
        rows.check_idle(barrier_of(newest))
    for place, end in gone.items():
        assert f"{place.topic}/{place.partition} has lost its end: offset" in str(said.value), f"from {end} on"
    if with_stream and (named := hidden(job)):
        assert "/0: a transaction is open at offset" in named
        return
    for named in (shown_or_named(job, tmp_path / "view"), told_or_named(job)):
        assert (named == "") == with_stream, named
        assert not named or job.writing.topic in named
    job.writing.close()
