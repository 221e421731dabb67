"""The example of docs/ATTACH.md as a real program: files, orders, and what pandas or DuckDB makes of them."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
from confluent_kafka import Producer

from cutwater.local.jars import jars
from support.harness import Flow

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "attach"
START_MS = 1_700_000_040_000
PROGRAM = "orders_query"
SALES = "sales_query"
FILES = {PROGRAM: ("orders_query.py", "orders.yaml", "orders"), SALES: ("sales_query.py", "sales.yaml", "sales")}
"""Program, job file and job of each example."""


class Shop(Flow):
    """The example's files with a job and a topic of this test's own."""

    def __init__(self, cluster: Any, folder: Path, name: str, program: str = PROGRAM) -> None:
        shutil.copytree(EXAMPLE, folder / "example")
        self._program = program
        self._script, file, job = FILES[program]
        job_file = folder / "example" / file
        job_file.write_text(job_file.read_text().replace(f"job: {job}", f"job: {name}"))
        super().__init__(cluster, job_file, folder, source=f"{name}.source")

    def program(self, conf: Mapping[str, str] | None = None, **env: str) -> Any:
        """Start the program by spark-submit, with more Spark settings."""
        submit = [
            str(Path(sys.executable).with_name("spark-submit")),
            "--master",
            "local[2]",
            "--driver-memory",
            "700m",
        ]
        for name, value in {"spark.ui.enabled": "false", **(conf or {})}.items():
            submit += ["--conf", f"{name}={value}"]
        submit += ["--jars", ",".join(map(str, jars("spark")))]
        names = {"ORDERS_TOPIC": self.source, "ORDERS_JOB": str(self.job_file)}
        return self.start_command(
            self._program,
            [*map(str, submit), str(self.job_file.with_name(self._script))],
            cwd=self.folder,
            **names,
            **env,
        )

    def orders(self, made: list[dict[str, Any]]) -> None:
        producer = Producer(self.cluster.librdkafka())
        for one in made:
            producer.produce(self.source, json.dumps(one).encode(), one["customer"].encode())
            producer.poll(0)
        assert producer.flush(30) == 0


def orders(count: int, seed: int = 3, from_ms: int = 0) -> list[dict[str, Any]]:
    """Orders over 50 minutes, of which every fifth comes a second time, later; some customers are unknown."""
    rng = random.Random(seed)
    made = [
        {
            "event_id": f"e{seed}-{number}",
            "customer": f"c{rng.randrange(22)}",
            "cents": rng.randrange(1, 20_000),
            "at": datetime.fromtimestamp((START_MS + from_ms + rng.randrange(3_000_000)) / 1000, UTC).isoformat(),
        }
        for number in range(count)
    ]
    again = [rng.choice(made[: number + 1]) for number in range(0, count, 5)]
    mixed = made + again
    order = {id(one): place for place, one in enumerate(made)}
    return sorted(mixed, key=lambda one: order[id(one)] + rng.randrange(400))


def expected(made: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    """The state by pandas: each event once, joined and grouped."""
    frame = pd.DataFrame(made).drop_duplicates("event_id")
    frame = frame.merge(pd.read_csv(EXAMPLE / "customers.csv"), on="customer")
    ms = pd.to_datetime(frame["at"], format="ISO8601").map(lambda at: round(at.timestamp() * 1000))
    frame["start"] = ms - ms % 600_000
    frame["large"] = frame["cents"] >= 10_000
    rows = {}
    for (region, start), group in frame.groupby(["region", "start"]):
        rows[str(region), int(start)] = {
            "orders": len(group),
            "cents": int(group["cents"].sum()),
            "largest": int(group["cents"].max()),
            "large": int(group["large"].sum()),
        }
    return rows


def sales(made: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    """The rows of sales.yaml by DuckDB: no order of the tests comes behind the end of its window."""
    orders = pd.DataFrame(made)  # noqa: F841  (read by DuckDB)
    rows = duckdb.sql(
        'select region, (epoch_ms(orders."at"::timestamptz) // 600000) * 600000 as start, count(*) as orders, '
        "sum(cents)::bigint as cents, min(cents) as smallest, max(cents) as largest, max(event_id) as latest "
        f"from orders join read_csv('{EXAMPLE}/customers.csv', header=true) using (customer) group by all"
    )
    names = rows.columns[2:]
    return {(row[0], row[1]): dict(zip(names, row[2:], strict=True)) for row in rows.fetchall()}
