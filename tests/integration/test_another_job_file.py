"""A running job with another job file, and back: everything that reads it follows, and every row is right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from cutwater.client import committed
from cutwater.core.job.job import TOMBSTONE
from cutwater.local import running_file
from support.cli.commandline import Cli, running_stack
from support.cli.jsonshapes import parsed
from support.events import counting
from support.harness import wait_until

pytestmark = pytest.mark.slow

MINUTE_MS = 60_000
EVENTS = [
    {"key": f"k{number * 7 % 30}", "at": counting.START_MS + number * 150, "value": number * 37 % 2_001 - 1_000}
    for number in range(4_000)
]
BELOW = 1_500
X_MS = counting.START_MS + 4 * MINUTE_MS
"""The first window after the newest of the events below the cut."""
MEASURES = "  ticks: {measure: count}\n  total: {measure: sum, field: value}\n"
CHANGED = "  least: {measure: min, field: value}\n  count: {measure: count, renamed_from: ticks}\n"
Rows = dict[tuple[str, int], dict[str, Any]]


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    text = counting.job_text("counts", partitions=2)
    assert MEASURES in text
    (tmp_path / "new.yaml").write_text(text.replace(MEASURES, CHANGED))
    (tmp_path / "finer.yaml").write_text(text.replace("size: 1m", "size: 30s"))
    with running_stack(tmp_path, text) as made:
        yield made


def rows(events: list[dict[str, Any]], new: bool) -> Rows:
    """The state of the old job file, or of the new one, after these events; those below came before the change."""
    found: Rows = {}
    for number, one in enumerate(events):
        row = found.setdefault(
            (one["key"], one["at"] // MINUTE_MS * MINUTE_MS),
            {"count": 0, "least": None} if new else {"ticks": 0, "total": 0},
        )
        row["count" if new else "ticks"] += 1
        if not new:
            row["total"] += one["value"]
        elif number >= BELOW:
            row["least"] = one["value"] if row["least"] is None else min(row["least"], one["value"])
    return found


def served(cli: Cli) -> Rows:
    """Every window of every key, as the API shows it."""
    stack = running_file.find(cli.folder / "data")
    assert stack is not None
    found = {}
    for key in {one["key"] for one in EVENTS}:
        for row in httpx.get(f"{stack.api_url}/v1/state/{key}", timeout=10).json()["rows"]:
            start = round(datetime.fromisoformat(row["window_start"]).timestamp() * 1000)
            found[key, start] = {name: row[name] for name in ("ticks", "total", "count", "least") if name in row}
    return found


def verified(cli: Cli) -> set[str]:
    done = cli.run("verify", "--state", "--json")
    if done.returncode:
        return set()
    return {one["place"] for one in parsed(["verify"], done.stdout)["places"] if one["verdict"] == "equal"}


def published(cli: Cli, job_file: str, rows_wanted: Rows) -> Rows:
    """The output, as a reader with this job file folds it; until it is what is wanted, or nothing comes."""
    stack = running_file.find(cli.folder / "data")
    assert stack is not None
    state: Rows = {}
    for heard in committed(cli.folder / job_file, stack.cluster, idle_s=20):
        for change in heard.changes:
            if change.kind == TOMBSTONE:
                state.pop((change.key, change.window_start_ms), None)
            else:
                state[change.key, change.window_start_ms] = dict(change.values)
        if state == rows_wanted:
            break
    return state


@pytest.mark.timeout(1_200)  # three Spark drivers, two of them at a time
def test_another_job_file_and_back(cli: Cli) -> None:
    """With no restart of any process, and readers of both job files."""
    cli.produce(EVENTS[:BELOW])
    wait_until(lambda: cli.events_shown() == BELOW, "the first events are served")
    refused = cli.run("generation", "start", "--job-file", str(cli.folder / "finer.yaml"), "--dry-run", "--json")
    assert refused.returncode == 2
    assert json.loads(refused.stdout)["change"]["possible"] is False
    assert "cannot be divided" in refused.stderr
    start = ("generation", "start", "--job-file", str(cli.folder / "new.yaml"))
    planned = cli.json(*start, "--dry-run")
    assert planned["claimed"] is False
    assert {one["name"]: one["fate"] for one in planned["change"]["measures"]} == {
        "least": "added",
        "count": "renamed",
        "total": "removed",
    }
    assert datetime.fromisoformat(planned["change"]["complete_from"]).timestamp() * 1000 == X_MS
    parent = planned["parent"]
    generation = str(cli.json(*start)["generation"])
    assert cli.json(*start)["again"] is True
    told = cli.run("generation", "job-file", generation)
    assert told.stdout == (cli.folder / "new.yaml").read_text()
    cli.produce(EVENTS[BELOW:3_000])
    wait_until(
        lambda: cli.json("generation", "list")[1]["epoch"] is not None, "the candidate has a milestone", 240
    )
    cli.json("generation", "promote", generation, "--wait", "0")
    cli.produce(EVENTS[3_000:])
    [shown] = cli.json("generation", "promote", generation)
    assert shown["state"] == "promoted"
    wanted = rows(EVENTS, new=True)
    wait_until(lambda: served(cli) == wanted, f"the new measures are served; logs in {cli.folder}", 240)
    whole = [row for (_, at), row in wanted.items() if at >= X_MS]
    assert len(whole) > 100
    assert None not in {row["least"] for row in whole}
    wait_until(lambda: verified(cli) == {"changelog", "view", "state", "output"}, "all places equal", 240)
    assert published(cli, "new.yaml", wanted) == wanted
    old = {name: {"ticks": row["count"], "total": None} for name, row in wanted.items()}
    mixed = published(cli, "job.yaml", old)
    assert {name: row["ticks"] for name, row in mixed.items()} == {name: row["ticks"] for name, row in old.items()}
    preview = cli.run("rollback", "--to", parent, "--diff", "--json")  # the claim's job file is found by itself
    assert preview.returncode == 1, preview.stderr
    assert json.loads(preview.stdout)["diff"]["differing_rows"] > 0
    cli.json("rollback", "--to", parent, "--wait", "240")
    before = rows(EVENTS, new=False)
    wait_until(lambda: served(cli) == before, f"the old measures are served; logs in {cli.folder}", 240)
    wait_until(lambda: verified(cli) == {"changelog", "view", "state", "output"}, "all places equal", 240)
    assert published(cli, "job.yaml", before) == before
    assert cli.run("milestones", "--check").returncode == 0
