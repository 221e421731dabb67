"""Changelog and output with a registry's numbers: plain consumers read them, and every reader of both framings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro.codec import MARKER, Codec
from cutwater.adapters.events.registry import Registry
from cutwater.adapters.events.value_headers import output_headers, state_header
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.client import committed
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import CONFLUENT, RegistryUse, confluent_header
from cutwater.core.job.job import Job, Output
from cutwater.core.protocol import topics
from support.events.registries import StandIn, apicurio
from support.views.changelogs import GENERATION, Sold, Writing, following, make_job
from support.views.publishing import create, pieces, publishing, read, wait_published


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apicurio(tmp_path_factory.mktemp("apicurio")) as found:
        yield found


@pytest.fixture
def writing(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(broker.cluster, make_job(tmp_path)[0])
    create(broker.cluster, made.job)
    yield made
    made.close()


def confluent(job: Job, url: str) -> Job:
    """The same job with both topics in Confluent framing."""
    output = Output(format=CONFLUENT)
    return replace(job, output=output, changelog_format=CONFLUENT, registry=RegistryUse(url))


def values(writing: Writing, topic: str) -> list[tuple[bytes | None, bytes]]:
    """Every record of a topic: key and value."""
    consumer = make_consumer(writing.cluster)
    found = []
    for partition in range(writing.job.shards.partitions):
        low, high = bounds(consumer, topic, partition)
        for message in read_range(consumer, topic, partition, low, high) if low < high else ():
            found.append((message.key(), message.value()))
    consumer.close()
    return found


@pytest.mark.slow
def test_confluents_own_deserializer_reads_the_output(writing: Writing, tmp_path: Path, url: str) -> None:
    """Rows and end markers, by schema numbers alone: the same values as `committed()` gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    job = confluent(writing.job, url)
    with Registry(url) as registry:
        headers = output_headers(job, registry)
        writing.state_header = state_header(job, GENERATION, registry)
        assert output_headers(job, registry) == headers, "a second start takes the same numbers"
    writing.epoch([Sold("a", 1, 1234), Sold("b", 2, 5)])
    topic = topics.output(job.name)
    with publishing(writing.cluster, job, tmp_path / "store", headers=headers):
        wait_published(writing.cluster, job, 1)
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": url}))
    context = SerializationContext(topic, MessageField.VALUE)
    read_plainly = [(key, deserialize(value, context)) for key, value in values(writing, topic)]
    rows = {one["key"]: one for key, one in read_plainly if key is not None}
    (milestone,) = read(writing.cluster, job, 1)
    assert {one.key: dict(one.values) for one in milestone.changes} == {
        key: {name: row[name] for name in ("sales", "pieces", "takings", "mean")} for key, row in rows.items()
    }
    assert [key for key, _ in read_plainly if key is not None] == [key.encode() for key in rows]
    ends = [one for key, one in read_plainly if key is None]
    assert (len(ends), sum(one["rows"] for one in ends)) == (job.shards.partitions, 2)


@pytest.mark.slow
def test_a_changelog_of_both_framings_is_one_state(writing: Writing, tmp_path: Path) -> None:
    """Framing changes twice within a generation: followed, restored and read as a log, the rows are the same."""
    numbered = confluent_header(41)
    with following(writing.cluster, writing.job, tmp_path / "followed") as view:
        for hour, header in enumerate([b"", numbered, numbered, b""], 1):
            writing.state_header = header
            writing.epoch([Sold(f"s{shop}", hour % 3, 10 * hour + shop) for shop in range(9)])
            view.wait_for(hour)
            assert view.rows() == (hour, writing.by_sequence[hour])
    starts = {value[:2] for _, value in values(writing, writing.topic)}
    assert starts == {MARKER, numbered[:2]}, "both framings stand there"
    with following(writing.cluster, writing.job, tmp_path / "restored") as view:
        view.wait_for(4)
        assert view.rows() == (4, writing.by_sequence[4])
        assert len(view.seen.done) == 1, "one jump over both"
    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        (output,) = read(writing.cluster, writing.job, 4)
    (changelog,) = committed(writing.job, writing.cluster, source="changelog", idle_s=3)
    assert pieces(output) == pieces(changelog) == writing.by_sequence[4]


def test_rows_of_another_schema_are_refused_though_numbers_tell_nothing(writing: Writing, tmp_path: Path) -> None:
    """A number says nothing without its registry, so the milestone's fingerprint must be the job file's."""
    writing.state_header = confluent_header(41)
    other = {**writing.job.state_schema, "name": "Other"}
    writing.epoch([Sold("a", 1, 1)], schema_fingerprint=Codec(other).header[len(MARKER) :].hex())
    with following(writing.cluster, writing.job, tmp_path / "view") as view:
        assert "use the job file that the driver runs with" in view.wait_stopped()
        assert view.view.milestone is None


def test_a_number_on_the_output_is_asked_for_once(writing: Writing, tmp_path: Path) -> None:
    """The registry is no part of every milestone: one question for each number, however many rows carry it."""
    with StandIn().running() as registry:
        made = confluent(writing.job, registry.url)
        with Registry(registry.url) as client:
            headers = output_headers(made, client)
        for sequence in (1, 2, 3):
            writing.epoch([Sold(f"s{shop}", sequence, sequence) for shop in range(9)])
            with publishing(writing.cluster, made, tmp_path / "store", headers=headers):
                wait_published(writing.cluster, made, sequence)
        before = registry.requests
        found = read(writing.cluster, made, 3)
        assert registry.requests == before + 2
    assert [one.token.sequence for one in found] == [1, 2, 3]
    assert [sum(pieces(one).values()) for one in found] == [9, 18, 27]


def test_a_number_of_another_schema_on_the_output_is_refused(writing: Writing, tmp_path: Path) -> None:
    """The wrong registry, or the wrong job file: number and fingerprint are named, nothing is decoded by guess."""
    with StandIn().running() as registry:
        made = confluent(writing.job, registry.url)
        with Registry(registry.url) as client:
            headers = output_headers(made, client)
            other = client.register("other", {**made.output_schema, "name": "Other"})
        writing.epoch([Sold("a", 1, 1)])
        wrong = replace(headers, row=confluent_header(other))
        with (
            publishing(writing.cluster, made, tmp_path / "store", headers=wrong),
            pytest.raises(UsageError, match=f"number {other} on the output is schema .* neither a row"),
        ):
            read(writing.cluster, made, 1)
