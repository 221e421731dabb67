"""The jobs of examples/: their own lines as they are, and many more events against DuckDB, every row."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.events.key_columns import key_text
from cutwater.demo.flights import events as flight_events
from support.harness import flow

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]
EXAMPLES = Path(__file__).parents[3] / "examples"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
MARCH = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp()) * 1_000
State = dict[tuple[str, int], dict[str, Any]]


def drained(broker: Any, folder: Path, job_file: Path, events: list[dict[str, Any]], name: str) -> State:
    """The state of an example's job, under its own name and topic, after these events."""
    job = load_job(job_file)
    text = job_file.read_text(encoding="utf-8").replace(f"job: {job.name}\n", f"job: {name}\n")
    text = text.replace(f"topic: {job.topic}", f"topic: {name}.events") + "partitions: 2\nshuffle_partitions: 1\n"
    beside = next(job_file.parent.glob("*.avsc"), EXAMPLES.parent / "schemas" / "flight_event.avsc")
    text = text.replace(f"schema: {beside.name}", "schema: event.avsc")
    with flow(broker.cluster, text, folder, beside.read_text(encoding="utf-8")) as run:
        return run.state_after(events)


def sample(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines()]


def test_carriers(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> None:
    """Five days of real flights: the median of a day and the three most frequent airports, ties by their code."""
    frame = flight_events(5).drop(columns="actual_at")
    made = json.loads(frame.to_json(orient="records"))
    state = drained(broker, tmp_path, EXAMPLES / "carriers" / "carriers.yaml", made, unique("carriers"))
    with duckdb.connect() as db:
        db.register("events", pa.Table.from_pylist(made))
        wanted = db.execute(
            f"""
            with kept as (select *, scheduled_at // {DAY_MS} * {DAY_MS} as start from events where not cancelled),
            counted as (select airport, carrier, start, other_airport as value, count(*) as count
                        from kept group by all),
            ranked as (select *, row_number() over (partition by airport, carrier, start
                                                    order by count desc, value) as rank from counted)
            select airport, carrier, start, count(*),
              case when count(delay_minutes) > 0 then [quantile_disc(delay_minutes, 0.5)::double,
                                                       quantile_disc(delay_minutes, 0.95)::double] end,
              (select list({{'value': value, 'count': count, 'error': 0}} order by rank) from ranked r
               where rank <= 3 and r.airport = kept.airport and r.carrier = kept.carrier and r.start = kept.start)
            from kept group by all
            """
        ).fetchall()
    assert len(wanted) > 500
    assert state == {
        (key_text([airport, carrier]), start): {"movements": count, "delay": delay, "towards": towards}
        for airport, carrier, start, count, delay, towards in wanted
    }


def test_orders(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> None:
    """The example's own lines, and a thousand carts; an order's last item is the last of its time."""
    rng = random.Random(3)
    made: list[dict[str, Any]] = [
        {**one, "placed_at": int(datetime.fromisoformat(one["placed_at"]).timestamp()) * 1_000}
        for one in sample("orders/orders.jsonl")
    ]
    times = rng.sample(range(6 * HOUR_MS), 1_000)
    for number in range(1_000):
        items = [
            {"sku": rng.choice(["tea", "cup", "größe"]), "quantity": rng.randrange(4), "cents": rng.randrange(999)}
            for _ in range(rng.randrange(5))
        ]
        cart = {"items": items, "coupon": rng.choice([None, "x"])}
        made.append({"order_id": f"n{number}", "placed_at": MARCH + times[number], "cart": cart})
    state = drained(broker, tmp_path, EXAMPLES / "orders" / "orders.yaml", made, unique("articles"))
    with duckdb.connect() as db:
        db.register("events", pa.Table.from_pylist(made))
        wanted = db.execute(
            f"""
            with each as (select placed_at, unnest(cart['items']) as item,
                                 generate_subscripts(cart['items'], 1) as index from events)
            select item.sku, placed_at // {HOUR_MS} * {HOUR_MS}, sum(item.quantity)::bigint,
              sum(item.quantity * item.cents)::bigint, last(item.cents order by placed_at, index)
            from each where item.quantity > 0 group by 1, 2
            """
        ).fetchall()
    assert state == {
        (sku, start): {"sold": sold, "paid": paid, "last_price": price} for sku, start, sold, paid, price in wanted
    }
    assert state["tea", MARCH] != state["tea", MARCH + HOUR_MS]


def test_changes(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> None:
    """Inserts, updates and deletes: each window has what the table holds at the end, also of old days."""
    rng, table = random.Random(9), {}
    made = sample("changes/changes.jsonl")
    for one in made:
        table.pop((one["before"] or one["after"])["id"], None)
        if one["after"]:
            table[one["after"]["id"]] = one["after"]
    for number in range(2_000):
        known = rng.choice(list(table)) if table and rng.random() < 0.6 else None
        before = table.pop(known) if known is not None else None
        after = None
        if before is None:
            placed = MARCH + number * 200_000
            after = {
                "id": 100 + number,
                "customer": rng.choice("abc"),
                "cents": rng.randrange(99),
                "placed_ms": placed,
            }
        elif rng.random() < 0.7:
            after = {**before, "customer": rng.choice("abc"), "cents": rng.randrange(99)}
        if after:
            table[after["id"]] = after
        made.append({"before": before, "after": after, "op": "c" if not before else "u" if after else "d"})
    state = drained(broker, tmp_path, EXAMPLES / "changes" / "balances.yaml", made, unique("balances"))
    with duckdb.connect() as db:
        db.register("rows", pa.Table.from_pylist(list(table.values())))
        wanted = db.execute(
            f"""select customer, placed_ms // {DAY_MS} * {DAY_MS}, count(*), sum(cents)::bigint
            from rows group by 1, 2"""
        ).fetchall()
    assert {place: row for place, row in state.items() if row["orders"]} == {
        (customer, start): {"orders": orders, "cents": cents} for customer, start, orders, cents in wanted
    }
    assert all(row["cents"] == 0 for row in state.values() if not row["orders"])
    assert {one["op"] for one in made} == {"c", "u", "d", "r"}
