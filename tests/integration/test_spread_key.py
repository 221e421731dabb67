"""A hot key is spread and put together again under load: every served row is DuckDB's over what was sent."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pandas as pd
import pytest

from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.client import EventProducer
from support.cli.commandline import Cli, running_stack
from support.events import counting
from support.harness import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PARTITIONS = 4
PRODUCERS = 2
HOT_SHARE = 0.6


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    with running_stack(tmp_path, counting.job_text("spreads", per_epoch=2_000, partitions=PARTITIONS)) as made:
        yield made


class Sending:
    """Producers that send until `stop`, each with what it sent."""

    def __init__(self, job_file: str, cluster: Cluster) -> None:
        self._stop = threading.Event()
        self.sent: list[list[dict[str, Any]]] = [[] for _ in range(PRODUCERS)]
        self.versions: list[set[int]] = [set() for _ in range(PRODUCERS)]
        self._threads = [
            threading.Thread(target=self._run, args=(job_file, cluster, number)) for number in range(PRODUCERS)
        ]
        for one in self._threads:
            one.start()

    def _run(self, job_file: str, cluster: Cluster, number: int) -> None:
        chance = random.Random(number)
        with EventProducer(job_file, cluster) as producer:
            while not self._stop.is_set():
                key = "hot" if chance.random() < HOT_SHARE else f"k{chance.randrange(40)}"
                at = counting.START_MS + chance.randrange(600_000)
                event = {"key": key, "at": at, "value": chance.randrange(-1000, 1000)}
                producer.send(event)
                self.sent[number].append(event)
                self.versions[number].add(producer.spread_version)
                time.sleep(0.002)

    def stop(self) -> list[dict[str, Any]]:
        self._stop.set()
        for one in self._threads:
            one.join()
        return [event for some in self.sent for event in some]


def expected(events: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, int]]:
    frame = pd.DataFrame(events)  # noqa: F841 - for DuckDB
    rows = duckdb.sql(
        'SELECT key, "at" // 60000 * 60000, count(*), sum(value)::BIGINT FROM frame GROUP BY ALL'
    ).fetchall()
    return {(key, start): {"ticks": ticks, "total": total} for key, start, ticks, total in rows}


def served(url: str, keys: set[str]) -> dict[tuple[str, int], dict[str, int]]:
    found = {}
    for key in keys:
        answer = httpx.get(f"{url}/v1/state/{key}", timeout=10).json()
        for row in answer["rows"]:
            start = round(datetime.fromisoformat(row["window_start"]).timestamp() * 1000)
            found[row["key"], start] = {"ticks": row["ticks"], "total": row["total"]}
    return found


@pytest.mark.timeout(600)
def test_rows_stay_exact_while_a_key_is_spread_and_put_together(cli: Cli) -> None:
    """Two producers, three versions of the plan; the load names the key before, and is even while it is spread."""
    stack = json.loads((cli.folder / "data/stack.json").read_text())
    cluster, job = Cluster(stack["bootstrap_servers"]), load_job(Path(cli.job_file))
    assert partition_count(cluster, job.topic) == PARTITIONS
    sending = Sending(cli.job_file, cluster)

    def adopted(version: int) -> bool:
        producers = cli.json("skew", "plan")["producers"]
        return [one["version"] for one in producers] == [version] * PRODUCERS

    def newest() -> Any:
        return commit_stream.milestones(cluster, job.name, 1)[0][0]

    def counted_since(sequence: int, epochs: int) -> bool:
        return bool(newest().sequence >= sequence + epochs)

    try:
        wait_until(lambda: sum(map(len, sending.sent)) > 2_000, "events are sent")
        wait_until(lambda: bool(commit_stream.milestones(cluster, job.name, 1)), "a milestone")
        wait_until(lambda: newest().source_cut.records > 1_500, "they are counted")
        before = cli.json("skew", "show")
        made = cli.json("skew", "spread", "hot", "--over", str(PARTITIONS), "--reason", "a test")
        assert (made["version"], made["written"]) == (1, True)
        wait_until(lambda: adopted(1), "both producers work with version 1")
        at = newest().sequence
        wait_until(lambda: counted_since(at, 6), "some milestones of the spread key")
        while_spread = cli.json("skew", "show", "--milestones", "4")
        assert cli.json("skew", "unspread", "hot")["version"] == 2
        wait_until(lambda: adopted(2), "both producers work with version 2")
        time.sleep(2)
    finally:
        events = sending.stop()
    assert all(one == {0, 1, 2} for one in sending.versions)
    wait_until(lambda: newest().source_cut.records == len(events), "all events in a milestone")
    rows = expected(events)
    keys = {key for key, _ in rows}
    wait_until(lambda: served(stack["api_url"], keys) == rows, "the view shows every event")

    assert before["keys"][0]["key"] == "hot"
    assert before["recommendations"][0]["kind"] == "spread"
    assert (before["recommendations"][0]["key"], before["plan_version"]) == ("hot", 0)
    fullest = [
        max(one["records"] for one in told["source"]) / sum(one["records"] for one in told["source"])
        for told in (before, while_spread)
    ]
    assert fullest[0] > HOT_SHARE - 0.05
    assert fullest[1] < 0.4
    assert [one["action"] for one in cli.json("audit")].count("skew spread") >= 1
    every = cli.json("skew", "show", "--milestones", "5000")
    hot = sum(event["key"] == "hot" for event in events)
    assert (every["keys"][0]["events"], every["total"], every["overcount"]) == (hot, len(events), 0)
    assert cli.json("skew", "plan")["producers"] == []
