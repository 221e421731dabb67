"""`cutwater load` against a running stack: every row is DuckDB's over what the source topic holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import duckdb
import httpx
import pandas as pd
import pytest

from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.core.events.rejection import Flaw
from cutwater.operations.event_sample import judge_records
from cutwater.operations.topic_sample import sample
from support.cli.commandline import Cli, running_stack
from support.events import counting
from support.harness import wait_until

pytestmark = pytest.mark.slow

SPIKES = "--rate 1500 --seconds 6 --shape spike --peak 3 --period 3"
FLAWS = "--keys 30 --zipf 1 --move-hot-keys 2 --out-of-order 120 --bad 0.02 --duplicates 0.02"
OPTIONS = f"{SPIKES} {FLAWS}".split()


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    with running_stack(tmp_path, counting.job_text("loads", per_epoch=5_000)) as made:
        yield made


def cluster(cli: Cli) -> Cluster:
    return Cluster(json.loads((cli.folder / "data/stack.json").read_text())["bootstrap_servers"])


def read(cli: Cli) -> int:
    """How many records of the source are in the newest milestone."""
    newest = commit_stream.milestones(cluster(cli), "loads", 1)
    return newest[0][0].source_cut.records if newest else 0


def expected(cli: Cli) -> dict[tuple[str, int], dict[str, int]]:
    """The rows of all events on the topic, by DuckDB. Python decodes them, not Spark."""
    job = load_job(Path(cli.job_file))
    records = judge_records(job, sample(cluster(cli), job.topic, 50_000), known_schemas(job, None))
    frame = pd.DataFrame([one for _, one in records if not isinstance(one, Flaw)])  # noqa: F841 - for DuckDB
    rows = duckdb.sql(
        'SELECT key, "at" // 60000000 * 60000, count(*), sum(value)::BIGINT FROM frame GROUP BY ALL'
    ).fetchall()
    return {(key, start): {"ticks": ticks, "total": total} for key, start, ticks, total in rows}


def served(cli: Cli) -> dict[tuple[str, int], dict[str, int]]:
    url, found = json.loads((cli.folder / "data/stack.json").read_text())["api_url"], {}
    for number in range(30):
        for row in httpx.get(f"{url}/v1/state/key-{number}", timeout=10).json()["rows"]:
            start = round(datetime.fromisoformat(row["window_start"]).timestamp() * 1000)
            found[row["key"], start] = {"ticks": row["ticks"], "total": row["total"]}
    return found


@pytest.mark.timeout(300)
def test_a_load_is_counted_exactly(cli: Cli) -> None:
    """Spikes, moving hot keys, disorder, duplicates; each bad event is a dead letter, and nothing else is."""
    told = cli.json("load", *OPTIONS)
    assert told["delivered"] > 10_000
    wait_until(lambda: read(cli) == told["delivered"], f"all events in a milestone; logs in {cli.folder}")
    assert cli.json("dead-letters", "list")["total"] == told["bad"] > 50
    rows = expected(cli)
    assert sum(one["ticks"] for one in rows.values()) == told["delivered"] - told["bad"]
    wait_until(lambda: served(cli) == rows, "the view shows every event")
