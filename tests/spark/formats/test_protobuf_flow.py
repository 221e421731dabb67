"""A job over Protobuf events: a real flow, with expressions inside of messages, against DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from confluent_kafka import Producer

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.events.event_producer import EventWriter
from cutwater.adapters.events.registry import Registry, registry_for
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.core.events.formats import confluent_header
from cutwater.core.events.protobuf.message_index import message_index
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Barrier
from support.events import messages
from support.events.registries import StandIn
from support.harness import flow
from support.naming import unique

JOB = """\
job: {name}
source:
  topic: {name}.events
  schema: event.desc
  message: shop.Order
  format: confluent-protobuf
  registry: {url}
  key: [buyer, color]
  event_time: at
  where: not bool
  columns: {{buyer: key, pieces: "coalesce(item.count, 0)", a: "counts['a']", first: "get(items, 0).sku"}}
window: {{kind: tumbling, size: 1m}}
lateness: 1h
retention: 9999d
partitions: 2
max_events_per_epoch: 400
shuffle_partitions: 1
measures:
  ticks: {{measure: count}}
  total: {{measure: sum, field: sint32}}
  pieces: {{measure: sum, field: pieces}}
  a: {{measure: sum, field: a}}
  first: {{measure: max, field: first}}
"""
UNUSABLE = 5
HEAD = confluent_header(1) + message_index(1)


def oracle(made: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    rows = [
        {
            "key": one["key"],
            "color": one.get("color", "RED"),
            "at": int(one["at"].timestamp()) // 60 * 60_000,
            "sint32": one.get("sint32", 0),
            "pieces": one.get("item", {}).get("count", 0),
            "a": one.get("counts", {}).get("a"),
            "first": next((item.get("sku", "") for item in one.get("items", ())), None),
        }
        for one in made
        if not one.get("bool", False)
    ]
    query = (
        'SELECT to_json([key, color])::VARCHAR, "at", count(*), sum(sint32), sum(pieces), sum(a), max(first) '
        "FROM events GROUP BY ALL"
    )
    with duckdb.connect() as db:
        db.register("events", pd.DataFrame(rows).astype({"a": "Int64"}))
        found = db.execute(query).fetchall()
    return {
        (key, at): {
            "ticks": ticks,
            "total": int(total),
            "pieces": int(pieces),
            "a": None if a is None else int(a),
            "first": first,
        }
        for key, at, ticks, total, pieces, a, first in found
    }


@pytest.mark.usefixtures("shared_spark")
@pytest.mark.slow
@pytest.mark.spark
def test_a_topic_of_messages_gives_the_oracles_state(broker: Any, tmp_path: Path) -> None:
    """Events of Google's library and of `produce`, and some that are none: the state is DuckDB's."""
    made = messages.events(900, seed=4)
    made_of = messages.message_class(messages.descriptor_set())
    with StandIn().running() as registered:
        with Registry(registered.url) as registry:
            body = {"schema": messages.PROTO, "schemaType": "PROTOBUF"}
            name = unique("protobuf")
            subject = f"{name}.events-value"
            registry.call("POST", f"/subjects/{subject}/versions", subject, None, body)
        (tmp_path / "job").mkdir()
        (tmp_path / "job" / "event.desc").write_bytes(messages.descriptor_set())
        with flow(broker.cluster, JOB.format(name=name, url=registered.url), tmp_path / "job") as job:
            writer = EventWriter(job.cluster, job.job, registry_for(job.job, load_settings()))
            writer.write_all(made[:300])
            producer = Producer(job.cluster.librdkafka())
            values = [HEAD + messages.serialized(one, made_of) for one in made[300:]]
            for value in [*values, HEAD, HEAD[:6] + values[0], values[0][:-1], b"\0\0\0\0\2\0", b"{}"]:
                producer.produce(job.job.topic, value=value)
            producer.flush(10)
            job.signal()
            job.driver()
            milestone = job.wait_committed()
            tail = Tail(job.cluster, topics.barriers(job.job.name))
            told = {one.epoch: one for one in tail.poll() if isinstance(one, Barrier)}
            tail.close()
            assert job.state(milestone) == oracle(made)
    assert sum(one.rejected for one in told.values()) == UNUSABLE
    kept = [one for one in made if not one.get("bool", False)]
    assert sum(one.events for one in told.values()) == len(kept) + UNUSABLE
