"""Each way of being let in, and of not being let in, by clients that run in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.fetch.fetcher import Fetcher
from cutwater.adapters.fetch.record_batches import records
from cutwater.adapters.kafka.admin import create_topics
from cutwater.adapters.kafka.client import make_consumer, partition_count, read_range, wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster, Security
from cutwater.adapters.kafka.connect import ask
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.protocol.topics import TopicSpec
from support.kafka.certificates import Authority
from support.kafka.secured_broker import Secured, Start

WAIT_S = 30.0


def round_trip(cluster: Cluster, topic: str) -> None:
    """Create, write in a transaction, read: librdkafka's admin, producer, consumer; the reader of batches."""
    wait_for_broker(cluster, WAIT_S)
    create_topics(cluster, [TopicSpec(topic, 1, ())])
    assert partition_count(cluster, topic) == 1
    writer = TransactionalWriter(cluster, f"{topic}.writer")
    writer.initialise()
    writer.write(topic, [b"a", b"b"])
    consumer = make_consumer(cluster)
    assert [one.value() for one in read_range(consumer, topic, 0, 0)] == [b"a", b"b"]
    consumer.close()
    with closing(cluster.reader(Fetcher, topic)) as fetcher:
        fetcher.assign({0: 0})
        assert [one.value for one in records(fetcher.take(WAIT_S)[0])] == [b"a", b"b"]


@pytest.mark.variations
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def test_librdkafka_over_sasl_ssl(sasl_ssl: Secured, mechanism: str, unique: Callable[[str], str]) -> None:
    """Each mechanism lets a user in whose password holds quotes, backslashes and a dollar."""
    round_trip(sasl_ssl.cluster("admin", mechanism), unique("round"))


@pytest.mark.slow
def test_librdkafka_with_certificates_on_both_sides(mutual: Secured, unique: Callable[[str], str]) -> None:
    """SSL alone: the client's certificate is who it is."""
    round_trip(mutual.cluster(), unique("round"))


@pytest.mark.slow
def test_librdkafka_over_sasl_plaintext(start_secured: Start, unique: Callable[[str], str]) -> None:
    """Users without TLS; a mechanism that the broker does not offer is told at once."""
    only = {"listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    secured = start_secured("SASL_PLAINTEXT", **only)
    round_trip(secured.cluster("admin"), unique("round"))
    assert "CUTWATER_KAFKA_SASL_MECHANISM" in str(refused(secured.cluster("admin", "PLAIN"), 300.0))


def test_aiokafka_over_sasl_ssl(sasl_ssl: Secured, unique: Callable[[str], str]) -> None:
    """An aiokafka producer and consumer made of the same settings are let in."""
    aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed")
    topic = unique("asyncio")
    cluster = sasl_ssl.cluster("admin")
    create_topics(cluster, [TopicSpec(topic, 1, ())])

    async def run() -> bytes:
        async with aiokafka.AIOKafkaProducer(**cluster.aiokafka()) as producer:
            await producer.send_and_wait(topic, b"hello")
        settings = {**cluster.aiokafka(), "auto_offset_reset": "earliest"}
        async with aiokafka.AIOKafkaConsumer(topic, **settings) as consumer:
            return bytes((await asyncio.wait_for(consumer.getone(), WAIT_S)).value)

    assert asyncio.run(run()) == b"hello"


def stranger(folder: Path) -> dict[str, str]:
    """A certificate of an authority that nobody knows."""
    made = Authority(folder / "other").issue("stranger")
    return {"certificate_file": str(made.certificate_file), "key_file": str(made.key_file)}


def refused(cluster: Cluster, timeout_s: float) -> CutwaterError:
    """The error of a cluster that cannot be reached; no secret is in it."""
    with pytest.raises(CutwaterError) as raised:
        ask(cluster, timeout_s)
    told = f"{raised.value} {raised.value!r}"
    assert cluster.bootstrap in told
    assert not cluster.security.password or cluster.security.password not in told
    return raised.value


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({"password": "a wrong one"}, "CUTWATER_KAFKA_SASL_PASSWORD"),
        ({"password": "a wrong one", "mechanism": "PLAIN"}, "CUTWATER_KAFKA_SASL_PASSWORD"),
        ({"username": "eve"}, "CUTWATER_KAFKA_SASL_USERNAME"),
    ],
)
def test_a_wrong_user_or_password_is_told_at_once(sasl_ssl: Secured, change: dict[str, str], setting: str) -> None:
    """A usage error, not a time-out: it does not wait for what waiting cannot mend."""
    cluster = sasl_ssl.cluster("admin")
    error = refused(replace(cluster, security=replace(cluster.security, **change)), 300.0)
    assert isinstance(error, UsageError)
    assert setting in str(error)


def test_an_unknown_authority_is_told_at_once(sasl_ssl: Secured, tmp_path: Path) -> None:
    """Brokers whose certificate another authority signed: the setting with the trusted ones."""
    cluster = sasl_ssl.cluster("admin")
    other = str(Authority(tmp_path).ca_file)
    error = refused(replace(cluster, security=replace(cluster.security, ca_file=other)), 300.0)
    assert isinstance(error, UsageError)
    assert "CUTWATER_KAFKA_SSL_CA_FILE" in str(error)


def test_another_host_than_the_certificate_names_is_refused(sasl_ssl: Secured) -> None:
    """The brokers' address must stand in their certificate: this one names 127.0.0.1 only."""
    cluster = sasl_ssl.cluster("admin")
    error = refused(replace(cluster, bootstrap=cluster.bootstrap.replace("127.0.0.1", "localhost")), 300.0)
    assert isinstance(error, UsageError)
    assert "CUTWATER_BOOTSTRAP_SERVERS" in str(error)


@pytest.mark.variations
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT"])
def test_a_wrong_protocol_is_told_within_the_bound(sasl_ssl: Secured, protocol: str) -> None:
    """The connection is only cut, as by a broker that starts: after the wait the setting is named."""
    cluster = sasl_ssl.cluster("admin")
    error = refused(replace(cluster, security=replace(cluster.security, protocol=protocol)), 3.0)
    assert isinstance(error, UnavailableError)
    assert "CUTWATER_KAFKA_SECURITY_PROTOCOL" in str(error)


@pytest.mark.slow
def test_tls_towards_a_broker_without_it_names_the_protocol(broker: Any, sasl_ssl: Secured) -> None:
    """The other way round: an unsecured broker does not understand TLS."""
    error = refused(Cluster(broker.cluster.bootstrap, sasl_ssl.security.client("admin")), 3.0)
    assert "CUTWATER_KAFKA_SECURITY_PROTOCOL" in str(error)


@pytest.mark.parametrize("kind", ["none", "unknown"])
def test_a_client_without_a_trusted_certificate_is_refused(mutual: Secured, tmp_path: Path, kind: str) -> None:
    """Where brokers ask for certificates, none and a stranger's each name the settings of the client's own."""
    own = stranger(tmp_path) if kind == "unknown" else {"certificate_file": "", "key_file": ""}
    cluster = mutual.cluster()
    error = refused(replace(cluster, security=replace(cluster.security, **own)), 10.0)
    assert "CUTWATER_KAFKA_SSL_CERTIFICATE_FILE" in str(error)


def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    """What the client library refuses to begin with: the setting and its file."""
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(UsageError, match=r"CUTWATER_KAFKA_SSL_CA_FILE \(.*ca\.pem\)"):
        ask(Cluster("127.0.0.1:1", Security("SSL", ca_file=str(tmp_path / "ca.pem"))), 1.0)


def test_a_user_without_rights_is_told_so(sasl_ssl: Secured, unique: Callable[[str], str]) -> None:
    """Let in and not allowed: a usage error that leads to the list of ACLs, not 'check that the brokers run'."""
    topic = unique("forbidden")
    create_topics(sasl_ssl.cluster("admin"), [TopicSpec(topic, 1, ())])
    nobody = sasl_ssl.cluster("nobody")
    with pytest.raises(UsageError, match=r"docs/SECURITY\.md"):
        partition_count(nobody, topic)
    with pytest.raises(UsageError, match=r"docs/SECURITY\.md"):
        TransactionalWriter(nobody, f"{topic}.writer").initialise()
