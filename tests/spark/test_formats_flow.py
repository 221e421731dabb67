"""The same events in three formats, two versions in one topic: a real flow each, against DuckDB."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from confluent_kafka import Producer

from cutwater.adapters.avro.codec import MARKER, Codec
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.events.registry import Registry, registry_for
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.core.events.formats import confluent_header
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Barrier, Milestone
from support.events import counting
from support.events.registries import apicurio
from support.harness import GENERATION, Flow, flow
from support.naming import unique

OLD: dict[str, Any] = json.loads(counting.SCHEMA)
NEW: dict[str, Any] = {
    **OLD,
    "fields": [
        *(one for one in OLD["fields"] if one["name"] != "value"),
        {"name": "amount", "type": "long", "aliases": ["value"]},
        {"name": "weight", "type": "int", "default": 2},
    ],
}
UNUSABLE = {
    "avro": [b"\xc3\x01" + bytes(8) + b"x", b"", None],
    "confluent": [b"\0\x7f\xff\xff\xffx", b"", None],
    "json": [b'{"key": 7, "at": 1, "amount": 1}', b'{"key": "k", "at": 1, "amount": "1"}', b"", None],
}


def text(name: str, source: str) -> str:
    measures = "  ticks: {measure: count}\n  total: {measure: sum, field: amount}\n"
    plain = counting.job_text(name, per_epoch=700).partition("measures:")[0]
    return (
        plain.replace("event_time: at}", f"event_time: at, {source}}}")
        + "measures:\n" + measures + "  weights: {measure: sum, field: weight}\n"
    )  # fmt: skip


def oracle(made: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    start = '"at" - "at" % 60000'
    query = f"SELECT key, {start} AS start, count(*), sum(amount), sum(weight) FROM events GROUP BY ALL"
    with duckdb.connect() as db:
        db.register("events", pd.DataFrame(made))
        rows = db.execute(query).fetchall()
    return {
        (key, start): {"ticks": ticks, "total": int(total), "weights": int(weights)}
        for key, start, ticks, total, weights in rows
    }


def produce_old(job: Flow, made: list[dict[str, Any]], source: str) -> None:
    """Events as a producer wrote them that still has the old schema (which for JSON means: the old fields)."""
    folder = job.folder / "old"
    folder.mkdir()
    (folder / "event.avsc").write_text(json.dumps(OLD), encoding="utf-8")
    (folder / "job.yaml").write_text(
        counting.job_text(job.job.name).replace("event_time: at}", f"event_time: at, {source}}}"), encoding="utf-8"
    )
    old = load_job(folder / "job.yaml")
    events = [{"key": one["key"], "at": one["at"], "value": one["amount"]} for one in made]
    EventWriter(job.cluster, old, registry_for(old, load_settings())).write_all(events)


def with_numbered_changelog(job: Flow, driver: Any, made: list[dict[str, Any]], url: str) -> Milestone:
    """The generation goes on with a changelog in Confluent framing: old rows and new ones stand in one topic."""
    driver.terminate()
    assert driver.wait(60) == 0
    changelog = topics.changelog(job.job.name, GENERATION)
    with Registry(url) as registry:
        before = first_bytes(job.cluster, changelog)
        assert set(before) == {MARKER[0]}
        later = [{**one, "at": one["at"] + 60_000} for one in made[1_000:1_400]]
        job.produce(later)
        made += later
        with job.job_file.open("a") as file:
            file.write("changelog: {format: confluent}\n")
        job.driver()
        milestone = job.wait_committed()
        (found,) = registry.versions(f"{changelog}-value")
    assert Codec(found.schema).header == Codec(job.job.state_schema).header
    after = first_bytes(job.cluster, changelog)
    assert after[MARKER[0]] == before[MARKER[0]], "what stood there still stands"
    assert after[confluent_header(found.id)[0]] > 0
    return milestone


def first_bytes(cluster: Cluster, topic: str) -> Counter[int]:
    consumer, found = make_consumer(cluster), Counter[int]()
    for partition in range(partition_count(cluster, topic)):
        low, high = bounds(consumer, topic, partition)
        for message in read_range(consumer, topic, partition, low, high) if low < high else ():
            found[message.value()[0]] += 1
    consumer.close()
    return found


@pytest.mark.usefixtures("shared_spark")
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["avro", "confluent", "json"])
def test_a_topic_of_two_versions_gives_the_oracles_state(broker: Any, tmp_path: Path, kind: str) -> None:
    """Old and new events in each format, and some that are neither: the state is DuckDB's, the rest is counted."""
    made = [
        {"key": one["key"], "at": one["at"], "amount": one["value"], "weight": number % 5}
        for number, one in enumerate(counting.events(2_000))
    ]
    with apicurio(tmp_path / "registry") if kind == "confluent" else nullcontext("") as url:
        source = f"format: {kind}" + (f", registry: '{url}'" if url else "")
        with flow(broker.cluster, text(unique(kind), source), tmp_path / "job", json.dumps(NEW)) as job:
            (job.folder / "event.v1.avsc").write_text(json.dumps(OLD), encoding="utf-8")
            if kind == "json":  # there an alias means nothing, and a default does
                job.produce([{name: one[name] for name in ("key", "at", "amount")} for one in made[:1_000]])
            else:
                produce_old(job, made[:1_000], source)
            job.produce(made[1_000:])
            producer = Producer(job.cluster.librdkafka())
            for value in UNUSABLE[kind]:
                producer.produce(job.job.topic, value=value, key=b"k1")
            producer.flush(10)
            job.signal()
            driver = job.driver()
            milestone = job.wait_committed()
            if kind == "confluent":
                milestone = with_numbered_changelog(job, driver, made, url)
            tail = Tail(job.cluster, topics.barriers(job.job.name))
            told = {one.epoch: one for one in tail.poll() if isinstance(one, Barrier)}
            tail.close()
            assert job.state(milestone) == oracle([{**one, "weight": 2} for one in made[:1_000]] + made[1_000:])
    assert sum(one.rejected for one in told.values()) == len(UNUSABLE[kind])
    assert sum(one.events for one in told.values()) == len(made) + len(UNUSABLE[kind])
