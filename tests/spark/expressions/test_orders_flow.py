"""Nested orders through a real driver: a condition, a computed key and amount, every row against DuckDB."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow as pa
import pytest

from cutwater.core.events.rejection import FAILED_EXPRESSION
from cutwater.local.machine.ports import free_ports
from support.harness import flow
from support.rejected_events import dead_letters

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_spark")]
START_MS = 1_700_000_040_000
ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [{"name": "sku", "type": "string"}, {"name": "cents", "type": "long"}, {"name": "n", "type": "int"}],
}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "test",
    "fields": [
        {"name": "status", "type": "string"},
        {
            "name": "customer",
            "type": {
                "type": "record",
                "name": "Customer",
                "fields": [{"name": "id", "type": "long"}, {"name": "country", "type": ["null", "string"]}],
            },
        },
        {"name": "placed", "type": "string"},
        {"name": "people", "type": "int"},
        {"name": "items", "type": {"type": "array", "items": ITEM}},
    ],
}
JOB = """job: {name}
source:
  topic: {name}.events
  schema: event.avsc
  where: status in ('paid', 'sent') and size(items) > 0
  columns:
    country: upper(coalesce(customer.country, '??'))
    placed_at: to_timestamp(placed)
    cents: aggregate(items, 0L, (sum, item) -> sum + item.cents * item.n)
    each: aggregate(items, 0L, (sum, item) -> sum + item.cents * item.n) div people
  key: country
  event_time: placed_at
window: {{kind: tumbling, size: 1m}}
lateness: 1h
retention: 30d
partitions: 2
shuffle_partitions: 1
measures:
  orders: {{measure: count}}
  cents: {{measure: sum, field: cents}}
  most_each: {{measure: max, field: each}}
"""


def orders(count: int) -> list[dict[str, Any]]:
    rng = random.Random(3)

    def one() -> dict[str, Any]:
        second = START_MS // 1000 + rng.randrange(600)
        return {
            "status": rng.choice(["paid", "sent", "open"]),
            "customer": {"id": rng.randrange(50), "country": rng.choice(["de", "fr", None])},
            "placed": f"{duckdb_time(second)}{rng.choice(['Z', '+00:00'])}",
            "people": rng.randrange(4),
            "items": [
                {"sku": f"s{rng.randrange(9)}", "cents": rng.randrange(10_000), "n": rng.randrange(1, 5)}
                for _ in range(rng.randrange(3))
            ],
        }

    return [one() for _ in range(count)]


def duckdb_time(second: int) -> str:
    with duckdb.connect() as db:
        [(text,)] = db.execute(
            "select strftime(to_timestamp(?) at time zone 'UTC', '%Y-%m-%dT%H:%M:%S')", [second]
        ).fetchall()
    return str(text)


ORACLE = """
with kept as (
  select upper(coalesce(customer.country, '??')) as country, people,
    list_sum([one.cents * one.n for one in items]) as cents,
    epoch_ms(placed::timestamptz) // 60000 * 60000 as start
  from events where status in ('paid', 'sent') and len(items) > 0
)
select country, start, count(*), sum(cents)::bigint, max(cents // people)
from kept where people <> 0 group by all
"""


@pytest.mark.slow
def test_nested_orders_are_those_of_duckdb(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> None:
    """Orders that are not paid count nowhere; those of nobody, a division by zero, are dead letters."""
    made = orders(1_500)
    name = unique("orders")
    with flow(broker.cluster, JOB.format(name=name), tmp_path, json.dumps(SCHEMA)) as job:
        job.produce(made)
        job.signal()
        port = free_ports(1)[0]
        job.driver(CUTWATER_DRIVER_PORT=str(port))
        milestone = job.wait_committed()
        state = job.state(milestone)
        found = dead_letters(job.cluster, name)
        told = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=20).text
    with duckdb.connect() as db:
        db.register("events", pa.Table.from_pylist(made))
        wanted = db.execute(ORACLE).fetchall()
    assert state == {
        (country, start): {"orders": count, "cents": cents, "most_each": each}
        for country, start, count, cents, each in wanted
    }
    kept = [one for one in made if one["status"] != "open" and one["items"]]
    of_nobody = [one for one in kept if not one["people"]]
    assert len(of_nobody) > 100, "the fault happened"
    assert [one.reason for one in found.entries] == [FAILED_EXPRESSION] * len(of_nobody)
    assert {one.field for one in found.entries} == {"source.columns.each"}
    assert f"cutwater_driver_left_out_total {len(made) - len(kept)}.0" in told
    assert milestone.late == 0
