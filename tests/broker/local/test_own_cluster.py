"""A cluster of three real brokers: copies that are safe there, and what a broker's version says.

The last test kills one of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.api_versions import broker_version, decode
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.checks.cluster import APIS, check_cluster
from cutwater.core.checks.findings import Level
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.topics import TopicSpec
from cutwater.local import added_topics, job_topics
from cutwater.local.processes.supervisor import Supervised, Supervisor
from cutwater.operations import cluster_facts
from support.events import counting
from support.kafka.brokers import one_cluster


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory, kafka_jars: list[Path]) -> Iterator[list[Supervised]]:
    """Three brokers of one cluster, the first of them its controller too; the last one may be killed."""
    with one_cluster(tmp_path_factory.mktemp("three"), kafka_jars, 3) as brokers:
        supervised = [one.supervised() for one in brokers.values()]
        with Supervisor(supervised) as supervisor:
            supervisor.start(threading.Event())
            yield supervised


@pytest.fixture
def cluster(members: list[Supervised]) -> Cluster:
    properties = Path(members[0].child.argv[-1]).read_text()
    (listeners,) = [line for line in properties.splitlines() if line.startswith("advertised.listeners=")]
    return Cluster(listeners.rpartition("//")[2])


def job_file(folder: Path, name: str) -> Path:
    (folder / "event.avsc").write_text(counting.SCHEMA)
    (folder / "job.yaml").write_text(counting.job_text(name))
    return folder / "job.yaml"


@pytest.mark.slow
def test_more_copies_than_brokers_are_refused_before_anything_is_made(cluster: Cluster, tmp_path: Path) -> None:
    """The setting is named; no topic and no note of one is left."""
    job = load_job(job_file(tmp_path, "greedy"))
    admin.create_topics(cluster, [topics.events(job.topic, 1)])
    settings = Settings(bootstrap_servers=cluster.bootstrap, data_dir=tmp_path, replication_factor=9)
    with pytest.raises(UsageError, match="CUTWATER_REPLICATION_FACTOR is 9"):
        job_topics.prepare(cluster, job, settings, print)
    assert (
        admin.describe_topics(
            cluster, [one.name for one in topics.generation_topics("greedy", settings.generation, 2)]
        )
        == {}
    )
    assert added_topics.read(tmp_path) is None


@pytest.mark.slow
def test_topics_that_were_there_are_not_ours_to_delete(cluster: Cluster, tmp_path: Path) -> None:
    """What an administrator made from the plan stays; what a stack made is remembered over restarts."""
    job = load_job(job_file(tmp_path, "shared"))
    settings = Settings(bootstrap_servers=cluster.bootstrap, data_dir=tmp_path)
    specs = topics.generation_topics("shared", settings.generation, 2)
    admin.create_topics(cluster, [topics.events(job.topic, 1), specs[0]])
    for _ in range(2):  # the second time all of them are there
        job_topics.prepare(cluster, job, settings, lambda line: None)
        kept = added_topics.read(tmp_path)
        assert kept is not None
        left = added_topics.left_over(cluster, kept)
        assert (set(left.created), left.found) == ({one.name for one in specs[1:]}, (specs[0].name,))
    with pytest.raises(UsageError, match="nothing was deleted"):
        added_topics.left_over(cluster, replace(kept, cluster_id="another"))
    with pytest.raises(UsageError, match="belongs to job shared"):
        added_topics.intend(cluster, tmp_path, "other", "events", [])


@pytest.mark.slow
def test_what_cannot_be_created_is_said_without_creating_it(cluster: Cluster) -> None:
    """A name that Kafka refuses: the reason is there, and the good one beside it is not made either."""
    good, bad = TopicSpec("dry", 1, ()), TopicSpec("wet", 1, (("cleanup.policy", "nonsense"),))
    assert set(admin.not_creatable(cluster, [good, bad], UNREPLICATED)) == {"wet"}
    assert admin.describe_topics(cluster, ["dry", "wet"]) == {}


@pytest.mark.slow
def test_a_broker_says_what_it_can_do(cluster: Cluster) -> None:
    """The ApiVersions answer of a real broker has every request that Cutwater makes, and Kafka 4.3's level."""
    version = broker_version(cluster)
    assert version.apis >= set(APIS)
    assert version.level == 30


@pytest.mark.parametrize("answer", ["", "000000070023", "000000070000ffff", "485454502f312e31"])
def test_an_answer_of_something_else_is_refused(answer: str) -> None:
    """Damaged, old or foreign answers raise ValueError and nothing else."""
    with pytest.raises(ValueError):
        decode(bytes.fromhex(answer))


def test_nobody_there_is_unavailable() -> None:
    """A closed port is one error that names it."""
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1"):
        broker_version(Cluster("127.0.0.1:1"))


@pytest.mark.slow
def test_three_brokers_hold_three_copies_and_one_may_be_lost(
    cluster: Cluster, members: list[Supervised], tmp_path: Path
) -> None:
    """Each topic gets three copies of which two must acknowledge; with one broker killed, writes succeed."""
    job = load_job(job_file(tmp_path, "safe"))
    admin.create_topics(cluster, [topics.events(job.topic, 2)])
    settings = Settings(bootstrap_servers=cluster.bootstrap, data_dir=tmp_path)
    said: list[str] = []
    job_topics.prepare(cluster, job, settings, said.append)
    assert not [line for line in said if line.startswith("warning")]
    owned = [one.name for one in topics.generation_topics("safe", settings.generation, 2)]
    found = admin.describe_topics(cluster, owned)
    assert {name: (one.replication, one.config["min.insync.replicas"]) for name, one in found.items()} == {
        name: (3, "2") for name in owned
    }
    assert {one.config["unclean.leader.election.enable"] for one in found.values()} == {"false"}
    kept = added_topics.read(tmp_path)
    assert kept is not None
    assert (set(kept.created), kept.found) == (set(owned), ())
    facts = cluster_facts.read_brokers(cluster)
    levels = {one.check: one.level for one in check_cluster(facts)}
    assert levels == {
        "brokers": Level.OK, "Kafka version": Level.OK, "copies": Level.OK, "clock": Level.SKIPPED
    }  # fmt: skip
    members[-1].child.kill()
    assert not members[-1].child.pids(), "the fault happened"
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({**cluster.librdkafka(), "acks": "all", "message.timeout.ms": 60_000})
    for name in owned:
        producer.produce(name, b"value", b"key", on_delivery=delivered)
    assert producer.flush(90) == 0
    assert not failed
