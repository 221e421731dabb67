"""A running mirror writes no event before its schema is known here alike; where it cannot be, its topic stops."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import structlog
from confluent_kafka import Producer

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.registry import Registry
from cutwater.core.events.formats import CONFLUENT, EventFormat, confluent_header, confluent_numbers
from cutwater.core.mirror.gaps import SCHEMAS
from cutwater.core.protocol import mirror_records
from cutwater.mirror.metrics import Metrics
from cutwater.mirror.topics.schema_sync import Schemas, schemas_of
from support.events.registries import StandIn
from support.regions.mirroring import Events, epoch, mirroring, read_all, wait_arrived, wait_copied, wait_stopped
from support.views.changelogs import Writing

V1 = {"type": "record", "name": "Event", "namespace": "test", "fields": [{"name": "n", "type": "int"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "unit", "type": "string", "default": "kg"}]}
OTHER = {**V1, "fields": [{"name": "weight", "type": "int"}]}
SUBJECT = "shop-value"


@pytest.fixture
def registries() -> Iterator[tuple[StandIn, StandIn]]:
    """There, and here."""
    with StandIn().running() as there, StandIn().running() as here:
        yield there, here


def register(at: StandIn, schema: dict[str, Any]) -> int:
    with Registry(at.url) as registry:
        return registry.register(SUBJECT, schema)


def schemas(writing: Writing, there: StandIn, here: StandIn) -> Schemas | None:
    job = replace(writing.job, format=EventFormat(CONFLUENT, subject=SUBJECT))
    settings = Settings(origin_registry_url=there.url, registry_url=here.url)
    return schemas_of(job, settings, structlog.get_logger(), Metrics(), time.monotonic)


def send(events: Events, number: int, schema: dict[str, Any], row: dict[str, Any]) -> None:
    producer = Producer(events.cluster.librdkafka())
    producer.produce(events.topic, confluent_header(number) + Codec(schema).encode(row)[10:], b"key", 0)
    assert producer.flush(20) == 0


def copied(broker: Any, events: Events) -> set[int]:
    """The numbers that events name in the copy."""
    target = mirror_records.from_origin(events.topic, "local")
    return confluent_numbers(one.value for one in read_all(broker.cluster, target, 0))


@pytest.mark.slow
def test_a_schema_is_here_before_its_events(
    broker: Any, writing: Writing, events: Events, registries: tuple[StandIn, StandIn]
) -> None:
    there, here = registries
    send(events, register(there, V1), V1, {"n": 1})
    seen: list[tuple[int, set[int]]] = []
    answer = here.answer

    def watched(method: str, path: str, body: Any, login: str | None) -> tuple[int, Any]:
        if method == "POST" and seen:  # before the first, there is no copy
            seen.append((body["id"], copied(broker, events)))
        elif method == "POST":
            seen.append((body["id"], set()))
        return answer(method, path, body, login)

    here.answer = watched  # type: ignore[method-assign]
    known = schemas(writing, there, here)
    with mirroring(broker.cluster, writing.cluster, writing.job, schemas=known) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        send(events, register(there, V2), V2, {"n": 2, "unit": "t"})
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 2))
    assert seen == [(1, set()), (2, {1})]
    assert copied(broker, events) == {1, 2}


@pytest.mark.slow
def test_events_that_would_be_read_wrong_stop_their_topic(
    broker: Any, writing: Writing, events: Events, registries: tuple[StandIn, StandIn]
) -> None:
    """While the mirror runs, and at its start; the others are copied on. Mended, it goes on where it stood."""
    there, here = registries
    send(events, register(there, V1), V1, {"n": 1})
    known = schemas(writing, there, here)
    with mirroring(broker.cluster, writing.cluster, writing.job, schemas=known) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        register(here, OTHER)
        send(events, register(there, V2), V2, {"n": 2, "unit": "t"})
        text = wait_stopped(mirror, events.topic, SCHEMAS)
        assert f"{SUBJECT} version 2, number 2" in text
        epoch(writing, events, 2)
        wait_copied(mirror, broker.cluster, writing)
    assert copied(broker, events) == {1}
    known = schemas(writing, there, here)
    with mirroring(broker.cluster, writing.cluster, writing.job, schemas=known) as mirror:
        wait_stopped(mirror, events.topic, SCHEMAS)
        wait_copied(mirror, broker.cluster, writing)
    assert copied(broker, events) == {1}
    here._subjects[SUBJECT].pop()
    here._ids.pop(2)
    known = schemas(writing, there, here)
    with mirroring(broker.cluster, writing.cluster, writing.job, schemas=known) as mirror:
        wait_arrived(mirror, broker.cluster, writing.job, 2)
    assert copied(broker, events) == {1, 2}
