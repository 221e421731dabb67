"""The function of docs/JOBFILE.md through a driver: a join, a filter, flawed records; every row against DuckDB."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow as pa
import pytest
import yaml
from confluent_kafka import Producer

from cutwater.core.events.rejection import FAILED_EXPRESSION, NO_KEY, UNDECODABLE
from cutwater.local.machine.ports import free_ports
from support.harness import flow
from support.rejected_events import dead_letters

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]
PAGE = Path(__file__).parents[3] / "docs" / "JOBFILE.md"
AT = 1_700_000_040_000
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Flight",
    "namespace": "test",
    "fields": [
        {"name": "airport", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "minutes", "type": "long"},
        {"name": "legs", "type": "int"},
    ],
}
AIRPORTS = [
    ("JFK", "US", "NY"),
    ("LGA", "US", "NY"),
    ("LAX", "US", "CA"),
    ("XXX", "US", None),
    ("FRA", "DE", "HE"),
]


def job_text(name: str, example: dict[str, Any]) -> str:
    source = {"topic": f"{name}.events", "schema": "event.avsc", "event_time": "at", **example["source"]}
    fields = {"sum": "minutes_each", "first": "minutes_each", "last": "minutes_each"}
    return yaml.safe_dump(
        {
            "job": name,
            "source": source,
            "window": {"kind": "tumbling", "size": "1m"},
            "lateness": "1h",
            "retention": "30d",
            "partitions": 2,
            "shuffle_partitions": 1,
            "measures": {
                "flights": {"measure": "count"},
                **{kind: {"measure": kind, "field": field} for kind, field in fields.items()},
            },
        }
    )


def example(folder: Path) -> dict[str, Any]:
    """Write the page's function and its table; return its job file's part."""
    section = PAGE.read_text(encoding="utf-8").partition("## source.transform\n")[2]
    code, part = (re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL) for kind in ("python", "yaml"))
    assert code
    assert part
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "regions.py").write_text(code[1])
    lines = ["iata,country,state", *(",".join(one or "" for one in row) for row in AIRPORTS)]
    (folder / "airports.csv").write_text("\n".join(lines))
    found: dict[str, Any] = yaml.safe_load(part[1])
    return found


ORACLE = """
with kept as (
  select state, "at", "at" // 60000 * 60000 as start, minutes // legs as each
  from events join airports on airport = iata
  where country = 'US' and state is not null and legs <> 0
)
select state, start, count(*), sum(each)::bigint, first(each order by "at"), last(each order by "at")
from kept group by all
"""


def test_every_row_is_that_of_duckdb_and_each_record_is_accounted_for(
    broker: Any, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """Unknown and foreign airports are left out; no state, or no legs, makes a dead letter."""
    rng, name = random.Random(7), unique("regions")
    times = rng.sample(range(320_000), 1_500)
    codes = [*(one[0] for one in AIRPORTS), "???"]
    made = [
        {"airport": rng.choice(codes), "at": AT + at, "minutes": rng.randrange(900), "legs": rng.randrange(4)}
        for at in times
    ]
    with flow(broker.cluster, job_text(name, example(tmp_path)), tmp_path, json.dumps(SCHEMA)) as job:
        job.produce(made)
        writer = Producer(dict(job.cluster.librdkafka()))
        writer.produce(job.job.topic, b"no event")
        writer.flush(20)
        job.signal()
        port = free_ports(1)[0]
        job.driver(CUTWATER_DRIVER_PORT=str(port))
        state = job.state(job.wait_committed())
        found = dead_letters(job.cluster, name)
        told = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=20).text
    table = [dict(zip(("iata", "country", "state"), one, strict=True)) for one in AIRPORTS]
    with duckdb.connect() as db:
        db.register("events", pa.Table.from_pylist(made))
        db.register("airports", pa.Table.from_pylist(table))
        wanted = db.execute(ORACLE).fetchall()
    assert state == {
        (key, start): {"flights": count, "sum": total, "first": first, "last": last}
        for key, start, count, total, first, last in wanted
    }
    american = [one for one in made if one["airport"] not in ("FRA", "???")]
    failed = sum(not one["legs"] for one in american)
    stateless = sum(one["airport"] == "XXX" and bool(one["legs"]) for one in american)
    assert min(failed, stateless) > 50, "the faults happened"
    reasons = Counter(one.reason for one in found.entries)
    assert reasons == {FAILED_EXPRESSION: failed, NO_KEY: stateless, UNDECODABLE: 1}
    assert f"cutwater_driver_left_out_total {len(made) - len(american)}.0" in told
    used = sum(one["flights"] for one in state.values())
    assert used + len(found.entries) + len(made) - len(american) == len(made) + 1
