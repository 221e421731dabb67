"""Two jobs in one stack, one of which reads the other's output: exact, with its lineage, each by its name."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pandas as pd
import pytest
from confluent_kafka import TopicPartition as Place

from cutwater.adapters.kafka.client import make_consumer, partition_count, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.local import running_file
from cutwater.operations.lineage import end_marker
from support.cli.commandline import Cli
from support.cli.jsonshapes import parsed
from support.events import counting
from support.harness import wait_until

pytestmark = pytest.mark.slow

DOWN = """job: down
source: {job: up.yaml, key: key, event_time: window_start}
window: {kind: tumbling, size: 5m}
lateness: 1h
retention: 30d
partitions: 2
shuffle_partitions: 1
measures:
  minutes: {measure: count}
  ticks: {measure: sum, field: ticks}
  total: {measure: sum, field: total}
"""
EVENTS = counting.events(4_000)
LAST = {"key": "k0", "at": counting.START_MS + 7_200_000, "value": 1}
"""Closes all windows of the others."""
PIECES = 4


def write_jobs(folder: Path) -> list[str]:
    """Two job files, the second of which the first reads."""
    (folder / "up.yaml").write_text(counting.job_text("up") + "output: {mode: final}\n")
    (folder / "down.yaml").write_text(DOWN)
    (folder / "event.avsc").write_text(counting.SCHEMA)
    return [str(folder / name) for name in ("down.yaml", "up.yaml")]


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    made = Cli(tmp_path)
    done = made.run("up", *write_jobs(tmp_path), "--detach", "--json")
    assert done.returncode == 0, done.stderr
    found = parsed(["up"], done.stdout)["jobs"]
    assert [(one["job"], Path(one["data_dir"]).name) for one in found] == [("down", "down"), ("up", "up")]
    api = parsed(["up"], done.stdout)["api_url"]
    assert [one["job"] for one in httpx.get(f"{api}/v1/jobs", timeout=10.0).json()["jobs"]] == ["down", "up"]
    assert httpx.get(f"{api}/v1/jobs/up/state/k0", timeout=10.0).status_code in (200, 503)
    try:
        yield made
    finally:
        made.run("down")


def produce(cli: Cli, events: list[dict[str, Any]]) -> None:
    file = cli.folder / "events.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in events))
    done = cli.run("produce", str(file), "--job", "up")
    assert done.returncode == 0, done.stderr


def expected() -> dict[tuple[str, int], tuple[int, int, int]]:
    """The windows of five minutes, by DuckDB over the events; `minutes` counts the windows of one."""
    frame = pd.DataFrame(EVENTS)  # noqa: F841  (DuckDB reads it by its name)
    rows = duckdb.sql(
        'with minutes as (select key, "at" - "at" % 60000 as start, count(*) as ticks, sum(value) as total '
        "from frame group by all) select key, start - start % 300000, count(*), sum(ticks), sum(total) "
        "from minutes group by all"
    ).fetchall()
    return {(key, start): (minutes, int(ticks), int(total)) for key, start, minutes, ticks, total in rows}


def state(cli: Cli) -> dict[tuple[str, int], tuple[int, int, int]]:
    """What the view of `down` serves."""
    stack = running_file.require(cli.folder / "data", "down")
    found = {}
    for key in {one["key"] for one in EVENTS}:
        for row in httpx.get(f"{stack.api_url}/v1/state/{key}", timeout=10.0).json().get("rows", []):
            start = int(pd.Timestamp(row["window_start"]).timestamp() * 1000)
            found[key, start] = (row["minutes"], row["ticks"], row["total"])
    return found


def ends(cluster: Cluster) -> dict[int, list[tuple[int, int]]]:
    """By partition of the output: the offset and the sequence of each end marker, by a plain consumer."""
    consumer = make_consumer(cluster)
    found = defaultdict(list)
    try:
        for number in range(partition_count(cluster, "up.output")):
            first, end = consumer.get_watermark_offsets(Place("up.output", number), timeout=20)
            for one in read_range(consumer, "up.output", number, first, end):
                if one.key() is None:
                    found[number].append((one.offset(), end_marker("up", bytes(one.value())).sequence))
    finally:
        consumer.close()
    return found


def whole_and_partly(cluster: Cluster, cut: dict[int, int]) -> tuple[int, int]:
    """By all markers: the newest milestone that is below the cut everywhere, and the newest that begins there."""
    whole, partly = [], []
    for number, markers in ends(cluster).items():
        below = [sequence for offset, sequence in markers if offset < cut.get(number, 0)]
        last = max((offset for offset, _ in markers if offset < cut.get(number, 0)), default=-2)
        whole.append(max(below, default=0))
        ahead = [sequence for offset, sequence in markers if offset >= cut.get(number, 0)]
        # A control record of Kafka follows each marker: further on there are rows.
        partly.append(min(ahead) if ahead and cut.get(number, 0) > last + 2 else max(below, default=0))
    return min(whole), max(partly)


def test_a_job_over_another_jobs_output_is_exact(cli: Cli) -> None:
    """Every row against DuckDB; each milestone's lineage against all end markers; verbs say which jobs run."""
    for piece in range(PIECES):
        produce(cli, EVENTS[piece::PIECES])
    produce(cli, [LAST])
    wanted = expected()
    wait_until(lambda: state(cli) == wanted, "every row of both jobs", 240)

    cluster = running_file.require(cli.folder / "data", "down").cluster
    assert len(wanted) > 50
    letters = cli.json("dead-letters", "list", "--job", "down")
    assert letters["total"] == 0
    lineage = cli.json("lineage", "--job", "down", "--limit", "1000")
    # Read after it: a milestone may be added meanwhile.
    milestones = {str(one.token): one for one, _ in commit_stream.milestones(cluster, "down")}
    for found in lineage:
        cut = {place.partition: offset for place, offset in milestones[found["token"]].source_cut}
        whole, partly = whole_and_partly(cluster, cut)
        sequences = [int(found[name].split(":")[1]) if found[name] else 0 for name in ("whole", "partly")]
        assert sequences == [whole, partly], (found, cut)
    newest = cli.json("lineage", "--job", "down")[0]
    assert newest["whole"] == newest["partly"] == str(commit_stream.published(cluster, "up"))

    several = cli.run("get", "k0")
    assert several.returncode == 2
    assert "down, up. Name one with --job" in several.stderr
    status = parsed(["status"], cli.run("status", "--json").stdout)["jobs"]
    assert [one["stack"]["job"] for one in status] == ["down", "up"]
    told = {alert["kind"] for one in status for alert in one["alerts"]}
    assert told <= {"skew"}, "the last event is two hours ahead, in one partition"
    refused = cli.run("produce", str(cli.folder / "events.jsonl"), "--job", "down")
    assert refused.returncode == 2
    assert "only that job writes" in refused.stderr
    no_upstream = cli.run("lineage", "--job", "up")
    assert no_upstream.returncode == 2

    assert cli.run("down", "--job", "up").returncode == 0
    assert cli.json("get", "k0")["key"] == "k0"
    again = cli.run("up", str(cli.folder / "up.yaml"), "--detach")
    assert again.returncode == 2
    assert "already" in again.stderr
    assert cli.run("down").returncode == 0
    assert running_file.stacks(cli.folder / "data") == []
