"""The events of B5: ends of flights from a seed, on one topic per format, and what decoding must show.

Avro has a second topic, whose events three versions of the schema wrote in turn.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from cutwater.adapters.avro.codec import Codec, schema_folder
from cutwater.adapters.events.event_encoder import event_encoder
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.core.events.formats import AVRO, CONFLUENT, FORMATS, WriterSchema, confluent_header
from cutwater.core.job.job import Job

PARTITIONS = 4
VERSIONS = "versions"
TOPICS = (*FORMATS, VERSIONS)
REGISTERED = 1
"""The number under which the schema would stand in a registry: no registry takes part."""
_SCHEMA = "flight_event.avsc"
_FLUSH_S = 60.0


def job(folder: Path, topic: str) -> Job:
    """A job that reads one of `TOPICS`; its file is `job_file(folder, topic)`."""
    path = job_file(folder, topic)
    kind = AVRO if topic == VERSIONS else topic
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(schema_folder() / _SCHEMA, path.parent)
    path.write_text(
        f"job: b5-{topic}\nsource: {{topic: b5.{topic}, schema: {_SCHEMA}, key: airport, "
        f"event_time: scheduled_at, format: {kind}}}\n"
        "window: {kind: tumbling, size: 1h}\nlateness: 1h\nretention: 1d\n"
        "measures: {movements: {measure: count}}\n",
        encoding="utf-8",
    )
    return load_job(path)


def job_file(folder: Path, topic: str) -> Path:
    return folder / topic / "job.yaml"


def versions(of: Job) -> Sequence[dict[str, Any]]:
    """The schemas that write an Avro topic: the job's, and for `VERSIONS` two that Avro must resolve to it."""
    newest, fields = of.event_schema, of.event_schema["fields"]
    if not of.topic.endswith(VERSIONS):
        return [newest]
    gate = {"name": "gate", "type": "string", "default": "B12"}
    return [newest, {**newest, "fields": [gate, *fields]}, {**newest, "fields": fields[::-1]}]


def known(of: Job) -> tuple[WriterSchema, ...]:
    """The schemas that wrote the topic; none for JSON."""
    if of.format.kind == AVRO:
        return tuple(WriterSchema(Codec(one).header, one, str(at)) for at, one in enumerate(versions(of), 1))
    if of.format.kind == CONFLUENT:
        return (WriterSchema(confluent_header(REGISTERED), of.event_schema, "1"),)
    return ()


def encoder(of: Job) -> Callable[[dict[str, Any]], bytes]:
    if of.format.kind == AVRO:
        codecs = cycle([Codec(one) for one in versions(of)])
        return lambda event: next(codecs).encode(event)
    if of.format.kind == CONFLUENT:
        body = Codec(of.event_schema).body
        return lambda event: confluent_header(REGISTERED) + body(event)
    return event_encoder(of, None)


def generate(size: int, seed: int) -> Iterator[dict[str, Any]]:
    """`size` events; the same for the same arguments."""
    rng = random.Random(seed)
    airports = [f"{a}{b}X" for a in "ABCDEFGHIJ" for b in "ABCDEFGHIJ"]
    for number in range(size):
        carrier = rng.choice(["UA", "AA", "B6", "DL", "9E"])
        yield {
            "airport": rng.choice(airports),
            "kind": rng.choice(["departure", "arrival"]),
            "scheduled_at": 1_357_000_000_000 + number * 100,
            "delay_minutes": None if number % 40 == 0 else rng.randrange(-30, 400),
            "carrier": carrier,
            "flight": f"{carrier}{rng.randrange(1, 3000)}",
            "other_airport": rng.choice(airports),
            "distance_miles": rng.randrange(80, 5_000),
            "cancelled": number % 40 == 0,
        }


def expected(size: int, seed: int) -> list[int]:
    """Count, sum of distances, sum of delays: what every contender must have decoded."""
    count = miles = delays = 0
    for event in generate(size, seed):
        count, miles = count + 1, miles + event["distance_miles"]
        delays += event["delay_minutes"] or 0
    return [count, miles, delays]


def produce(cluster: Cluster, of: Job, size: int, seed: int) -> None:
    """Put the events on the job's topic; raises UnavailableError when the broker does not take them."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    settings = {"enable.idempotence": True, "compression.type": "lz4", "linger.ms": 20}
    producer = Producer({**cluster.librdkafka(), **settings, "queue.buffering.max.messages": 500_000})
    encode = encoder(of)
    for number, event in enumerate(generate(size, seed)):
        value = encode(event)
        while not failures:
            try:
                producer.produce(of.topic, value=value, partition=number % PARTITIONS, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(1.0)
    left = producer.flush(_FLUSH_S)
    if failures or left:
        raise UnavailableError(f"{of.topic}: {left or len(failures)} events were not acknowledged: {failures[:1]}")


def result(path: Path) -> dict[str, Any]:
    """What a contender's process wrote."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
