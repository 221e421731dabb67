"""`cutwater late replay` as a user runs it: late events count in the next generation, and the output corrects."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pandas as pd
import pytest

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.adapters.topics.candidates import candidates
from cutwater.client import committed
from cutwater.core.job.job import CORRECTION, FINAL
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from support.cli.commandline import Cli, running_stack
from support.events import counting
from support.harness import wait_until

pytestmark = pytest.mark.slow

JOB = "amended"
HOUR_MS = 3_600_000
WITHOUT = counting.job_text(JOB, per_epoch=60).replace("lateness: 1h", "lateness: 15m") + "output: {mode: final}\n"
Rows = dict[tuple[str, int], dict[str, Any]]


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """A stack whose candidate cleans whenever it may, with epochs far smaller than what it reads again."""
    with running_stack(tmp_path, WITHOUT, CUTWATER_CLEANING_REST_MS="0", CUTWATER_TRIGGER_MS="100") as made:
        yield made


def at(hour: float, count: int, seed: int) -> list[dict[str, Any]]:
    return [{**one, "at": one["at"] + int(hour * HOUR_MS)} for one in counting.events(count, seed)]


def cluster(cli: Cli) -> Cluster:
    return Cluster(json.loads((cli.folder / "data/stack.json").read_text())["bootstrap_servers"])


def produce(cli: Cli, events: list[dict[str, Any]]) -> Milestone:
    """Produce events, and wait for a milestone that has read them."""
    cli.produce(events)
    brokers = cluster(cli)
    end = commit_stream.source_end(brokers, f"{JOB}.events")

    def read() -> Milestone | None:
        newest = commit_stream.milestones(brokers, JOB, 1)
        return newest[0][0] if newest and newest[0][0].source_cut.covers(end) else None

    found: Milestone = wait_until(read, f"a milestone that covers {end}; logs in {cli.folder}", 120)
    return found


def has_read_everything(cli: Cli, generation: str) -> bool:
    brokers = cluster(cli)
    newest = candidates(brokers, JOB).require(Generation.parse(generation)).newest
    return newest is not None and newest.source_cut.covers(commit_stream.source_end(brokers, f"{JOB}.events"))


def expected(events: list[dict[str, Any]]) -> Rows:
    """The rows of all these events, by DuckDB."""
    frame = pd.DataFrame(events)  # noqa: F841 - DuckDB finds it by its name
    rows = duckdb.sql(
        'SELECT key, "at" - "at" % 60000, count(*), sum(value)::BIGINT FROM frame GROUP BY ALL'
    ).fetchall()
    return {(key, start): {"ticks": ticks, "total": total} for key, start, ticks, total in rows}


def served(cli: Cli, keys: set[str]) -> Rows:
    url, found = json.loads((cli.folder / "data/stack.json").read_text())["api_url"], Rows()
    for key in keys:
        for row in httpx.get(f"{url}/v1/state/{key}", timeout=10).json()["rows"]:
            start = round(datetime.fromisoformat(row["window_start"]).timestamp() * 1000)
            found[key, start] = {"ticks": row["ticks"], "total": row["total"]}
    return found


@pytest.mark.timeout(600)  # two Spark drivers at a time
def test_late_events_count_once_in_the_next_generation(cli: Cli) -> None:
    """All rows are DuckDB's over all events; the list is empty; what was final is corrected, and nothing else."""
    on_time: list[dict[str, Any]] = []
    for hour, seed in ((0, 1), (6, 2), (6, 3)):
        on_time += (more := at(hour, 150, seed))
        produce(cli, more)
    late = at(0, 40, 4)
    produce(cli, late)
    for seed in (5, 6):  # far ahead of what is read again: a cleaning before the next late ones would be due
        on_time += (more := at(12, 150, seed))
        produce(cli, more)
    late += (more := at(0.2, 30, 7))
    produce(cli, more)
    assert cli.json("late", "list")["total"] == len(late)
    keys = {f"k{number}" for number in range(30)}
    wait_until(lambda: served(cli, keys) == expected(on_time), "the view shows the first generation", 60)

    refused = cli.run("late", "replay")
    assert refused.returncode == 2
    assert "the job file has no late.amend_for" in refused.stderr
    Path(cli.job_file).write_text(WITHOUT + "late: {amend_for: 1s}\n")
    assert cli.run("late", "replay", "--key", "nobody").returncode == 2
    planned = cli.json("late", "replay", "--dry-run")
    assert (planned["late"]["selected"], planned["late"]["counted"]) == (len(late), len(late))
    assert cli.json("generation", "list")[1:] == []
    one_key = cli.json("late", "replay", "--key", late[0]["key"], "--dry-run")
    assert one_key["late"]["selected"] < len(late)
    claimed = cli.json("late", "replay")
    generation = str(claimed["generation"])
    assert (claimed["parent"], claimed["again"]) == (planned["parent"], False)
    assert cli.json("late", "replay")["again"] is True, "the same events, the same claim"

    wait_until(lambda: has_read_everything(cli, generation), f"{generation}; logs in {cli.folder}", 120)
    on_time += (more := at(12.2, 20, 8))  # of a source at rest its watermark may stay behind, as any candidate's
    produce(cli, more)
    [told] = cli.json("generation", "promote", generation, "--wait", "120")
    assert told["state"] == "promoted"
    rows = expected([*on_time, *late])
    wait_until(lambda: served(cli, keys) == rows, "the view shows every event", 120)
    listed = cli.json("late", "list")
    assert (listed["total"], listed["problems"]) == (0, [])
    repeated = cli.run("late", "replay")
    assert repeated.returncode == 2
    assert "'cutwater late list' shows what is" in repeated.stderr
    wait_until(lambda: cli.run("verify").returncode == 0, "changelog, view and output are equal", 60)
    assert_corrected(cli, rows, expected(on_time), generation)


def assert_corrected(cli: Cli, rows: Rows, before: Rows, generation: str) -> None:
    """The output's closed windows are the rows, each was final once, and the changed ones are corrections."""
    state, finals, corrected = Rows(), Counter[tuple[str, int]](), set[tuple[str, int]]()
    newest = commit_stream.milestones(cluster(cli), JOB, 1)[0][0]
    for heard in committed(cli.job_file, cluster(cli), idle_s=60):
        for change in heard.changes:
            name = (change.key, change.window_start_ms)
            state[name] = change.values
            if change.kind == CORRECTION:
                assert str(heard.token).startswith(generation)
                corrected.add(name)
            else:
                assert change.kind == FINAL
                finals[name] += 1
        if heard.token.sequence >= newest.sequence:
            break
    closed = {name: row for name, row in rows.items() if name[1] + 60_000 <= newest.watermark_ms}
    assert state == closed
    assert corrected == {name for name, row in closed.items() if before.get(name) != row}
    assert max(finals.values()) == 1
    assert len(corrected) > 20
