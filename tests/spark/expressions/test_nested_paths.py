"""Paths into nested JSON: condition, columns, key and event time; and the bytes of what is listed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.job_files import expressions
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.topics.rejected_events import dead_letters, late_pairs
from cutwater.core.events.key_columns import key_text
from cutwater.core.events.rejection import FAILED_EXPRESSION, NO_KEY, UNDECODABLE
from cutwater.core.generations.source_topics import only
from cutwater.core.protocol import topics
from cutwater.operations.replay_dead_letters import Replayer
from cutwater_spark.query.decoding import LEFT_OUT, decode
from support.events import readings, wide
from support.harness import Flow, flow

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_spark")]
AT = 1_700_000_040_000
ITEM = [{"name": "sku", "type": "string"}, {"name": "price", "type": wide.TYPES["price"]}]
CUSTOMER = [{"name": "id", "type": "long"}, {"name": "country", "type": ["null", "string"], "default": None}]
PLACED = [{"name": "at", "type": wide.TYPES["seen"]}]
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "test",
    "fields": [
        {
            "name": "customer",
            "type": ["null", {"type": "record", "name": "Customer", "fields": CUSTOMER}],
            "default": None,
        },
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
        {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": ITEM}}},
        {"name": "placed", "type": {"type": "record", "name": "Placed", "fields": PLACED}},
    ],
}
JOB = """job: @NAME@
source:
  topic: @NAME@.events
  schema: event.avsc
  format: json
  where: tags['region'] = 'eu'
  columns:
    buyer: {sql: customer.id, type: long}
    sku: {sql: "items[0].sku", type: string}
    price: {sql: "element_at(items, -1).price", type: "decimal(9,2)"}
    moment: {sql: placed.at, type: timestamp}
  key: [buyer, sku]
  event_time: moment
window: {kind: tumbling, size: 1m}
lateness: 1m
retention: 30d
partitions: 2
shuffle_partitions: 1
measures:
  orders: {measure: count}
  spent: {measure: sum, field: price}
"""


def order(
    at: Any = AT, region: str = '"eu"', items: str = '[{"sku":"a","price":"1.50"}]', buyer: str = "7"
) -> bytes:
    """An order as its sender wrote it: of the same value there are many texts."""
    return (
        f'{{ "tags":{{"region":{region},"x":"y"}},"customer":{{"id":{buyer},"note":[1,{{}}]}},\n'
        f'"items":{items} ,"placed":{{"at":{at}}}}}'
    ).encode()


def test_paths_reach_into_json(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_in_a_driver: None
) -> None:
    """Each part of a job file by a path; what does not fit is named by its path, or by the expression."""
    monkeypatch.setattr(expressions, "find_spec", lambda _name: None)  # the types are declared
    (tmp_path / "event.avsc").write_text(json.dumps(SCHEMA))
    (tmp_path / "job.yaml").write_text(JOB.replace("@NAME@", "orders"))
    job = load_job(tmp_path / "job.yaml")
    two = '[{"sku":"a","price":"1.50"},{"sku":"b","price":%s}]'
    cases: list[tuple[bytes, tuple[str | None, str | None]]] = [
        (order(items=two % "2"), (None, None)),
        (order(region='"us"'), ("left out", None)),
        (order().replace(b"tags", b"Tags"), ("left out", None)),
        (order().replace(b"customer", b"Customer"), (NO_KEY, "buyer")),
        (order(items="[]"), (FAILED_EXPRESSION, "source.columns.sku")),
        (order(items=two % "0.001"), (UNDECODABLE, "items[1].price")),
        (order(items="{}"), (UNDECODABLE, "items")),
        (order(buyer='"7"'), (UNDECODABLE, "customer.id")),
        (order(at="null"), (UNDECODABLE, "placed.at")),
        (order(region="5"), (UNDECODABLE, "tags['region']")),
        (order(at=999_999_999_999_999), (UNDECODABLE, "moment")),
    ]
    written = datetime.fromtimestamp(AT / 1000, UTC)
    rows = [("t", 0, at, written, bytearray(value)) for at, (value, _) in enumerate(cases)]
    names = "topic string, partition int, offset long, timestamp timestamp, value binary"
    raw = spark.createDataFrame(rows, names).coalesce(1)
    found = decode(raw, job, (), only("t", "local"), explained=True).orderBy("offset").collect()
    told = [
        ("left out" if one[LEFT_OUT] else one["__reason"], one["__flaw"] and one["__flaw"]["field"])
        for one in found
    ]
    assert told == [outcome for _, outcome in cases]
    used = found[0]["event"]
    assert (used["buyer"], used["sku"], used["price"]) == (7, "a", Decimal("2.00"))
    assert used["moment"].timestamp() == AT / 1000


ORACLE = """
select e ->> '$.customer.id', e ->> '$.items[0].sku', (e ->> '$.placed.at')::bigint // 60000 * 60000,
  count(*), sum((e ->> '$.items[#-1].price')::decimal(9, 2))
from (select value::json as e from orders) where (e ->> '$.tags.region') = 'eu' group by all
"""


def orders(count: int) -> list[bytes]:
    rng = random.Random(5)

    def one() -> bytes:
        items = [
            f'{{"sku":"s{rng.randrange(3)}","price":{rng.randrange(900) / 4}}}' for _ in range(rng.randrange(1, 4))
        ]
        region, buyer = rng.choice(['"eu"', '"eu"', '"us"']), str(rng.randrange(4))
        return order(AT + rng.randrange(600_000), region, f"[{', '.join(items)}]", buyer)

    return [one() for _ in range(count)]


def listed(job: Flow, topic: str, kind: str) -> list[bytes]:
    """The events on one of the lists, as bytes."""
    consumer, found = make_consumer(job.cluster), []
    for partition in range(job.job.shards.partitions):
        low, high = bounds(consumer, topic, partition)
        for message in read_range(consumer, topic, partition, low) if high else ():
            found.append(protocol_codec(kind).decode(message.value())["event_value"])
    consumer.close()
    return sorted(found)


@pytest.mark.slow
def test_nested_orders_are_counted_listed_and_produced_again(
    broker: Any, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """Every row as DuckDB reads the same texts. Both lists have the bytes as sent, and so has what is replayed."""
    name, made = unique("nested"), orders(900)
    bad: list[bytes | None] = [
        order(buyer='"7"'),
        order(items='[{"sku":"a", "price":1.5},{"sku":"\\u0061","price":1e2}]'),
        order(items="[]"),
        order(region="{}"),
    ]
    late: list[bytes | None] = [
        order(AT, items='[{"price":0.10, "sku":"\\u0062"}]'),
        order(AT + 1),
    ]
    with flow(broker.cluster, JOB.replace("@NAME@", name), tmp_path, json.dumps(SCHEMA)) as job:
        readings.produce_raw(job, [*made, *bad])
        job.signal()
        job.driver()
        job.wait_committed()
        readings.produce_raw(job, [order(AT + 660_000)])  # an epoch closes by the watermark of the one before
        job.wait_committed()
        readings.produce_raw(job, [*late, order(AT, region='"us"')])
        state = job.state(job.wait_committed())
        pairs, letters = late_pairs(job.cluster, name), dead_letters(job.cluster, name)
        assert pairs.problems + letters.problems == []
        assert listed(job, topics.late(name), "late") == sorted(late)
        assert listed(job, topics.dead_letters(name), "dead_letter") == sorted(bad)
        assert {one.field for one in letters.entries} == {
            "customer.id", "items[1].price", "source.columns.sku", "tags['region']",
        }  # fmt: skip
        Replayer(job.cluster, name, job.source, lambda: time.time_ns() // 1_000_000).replay(letters.entries)
        again = [value for _, value in sorted(readings.source(job).items())][-len(bad) :]
        assert sorted(again) == sorted(bad)
        job.wait_committed()
        assert len(dead_letters(job.cluster, name).entries) == 2 * len(bad)
    with duckdb.connect() as db:
        values = [*made, order(AT + 660_000)]
        db.register("orders", pa.table({"value": [one.decode() for one in values]}))
        wanted = db.execute(ORACLE).fetchall()
    assert state == {
        (key_text([buyer, sku]), start): {"orders": count, "spent": spent}
        for buyer, sku, start, count, spent in wanted
    }
