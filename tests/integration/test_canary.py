"""A canary beside a running job: promoted or dropped by its gate, and a wrong promotion taken back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pandas as pd
import pytest

from cutwater.local import running_file
from support.cli.commandline import Cli, running_stack
from support.cli.jsonshapes import parsed
from support.events import counting
from support.harness import wait_until

pytestmark = pytest.mark.slow

EVENTS = counting.events(30_000, seed=11)
BEGUN, PIECE = 3_000, 100
MEASURES = "  ticks: {measure: count}\n  total: {measure: sum, field: value}\n"
CHANGED = "  least: {measure: min, field: value}\n  total: {measure: sum, field: value}\n"
"""One measure removed, one added, one that both have."""
Rows = dict[tuple[str, int], dict[str, Any]]


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    text = counting.job_text("counts", per_epoch=20_000)
    assert MEASURES in text
    (tmp_path / "new.yaml").write_text(text.replace(MEASURES, CHANGED))
    (tmp_path / "wrong.yaml").write_text(text.replace("event_time: at}", 'event_time: at, where: "value < 900"}'))
    with running_stack(tmp_path, text, CUTWATER_TRIGGER_MS="500") as made:
        yield made


class Feed:
    """Produces the events piece by piece."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self.sent = 0

    def send(self, count: int) -> None:
        piece = EVENTS[self.sent : self.sent + count]
        assert len(piece) == count
        self._cli.produce(piece)
        self.sent += count

    def until(self, states: set[str], patience_s: float = 400) -> dict[str, Any]:
        """Send pieces until the canary is in one of these states; return its status."""
        deadline = time.monotonic() + patience_s
        while (found := status(self._cli))["state"] not in states:
            assert time.monotonic() < deadline, found
            self.send(PIECE)
        return found


def status(cli: Cli, *more: str) -> dict[str, Any]:
    done = cli.run("canary", "status", *more, "--json")
    assert done.returncode in (0, 1), done.stderr
    found = dict(parsed(["canary", "status"], done.stdout))
    assert done.returncode == (1 if found["differing"] else 0)
    return found


def counted(sent: int, sql: str, since: int = 0) -> Rows:
    """The rows of the first events by DuckDB; `sql`: the measures. `since`: the number of the first event."""
    events = duckdb.from_df(pd.DataFrame(EVENTS[since:sent]))
    rows = events.query("e", f'select key, "at" - "at" % 60000 as start, {sql} from e group by all').df()
    return {
        (str(row["key"]), int(row["start"])): {
            name: int(row[name]) for name in rows.columns if name not in ("key", "start")
        }
        for row in rows.to_dict("records")
    }


def served(cli: Cli, *names: str) -> Rows:
    stack = running_file.find(cli.folder / "data")
    assert stack is not None
    found = {}
    for key in sorted({one["key"] for one in EVENTS}):
        answer = httpx.get(f"{stack.api_url}/v1/state/{key}", timeout=20)
        for row in answer.json().get("rows", []):
            start = round(datetime.fromisoformat(row["window_start"]).timestamp() * 1000)
            found[key, start] = {name: int(row[name]) for name in names if row.get(name) is not None}
    return found


@pytest.mark.timeout(1_500)
def test_promoted_by_its_gate_and_taken_back(cli: Cli) -> None:
    """The candidate lacks a measure and has another one. The way back is exact, and needs no start of Spark."""
    feed = Feed(cli)
    feed.send(BEGUN)
    wait_until(lambda: cli.events_shown() == BEGUN, "the first events are served")
    new = ("--job-file", str(cli.folder / "new.yaml"))
    assert cli.json("canary", "start", *new, "--milestones", "5", "--dry-run")["claimed"] is False
    generation = cli.json("canary", "start", *new, "--milestones", "5")["generation"]
    found = feed.until({"promoted"})
    assert (found["generation"], found["verdict"], found["differing"]) == (generation, "promote", 0)
    assert found["compared"] >= 5
    assert found["unpaired"] <= 2  # those of its first epochs, before one could end at a cut
    total = "sum(value) as total"
    wait_until(lambda: served(cli, "total") == counted(feed.sent, total), "the candidate's rows are served", 240)
    assert any("least" in row for row in served(cli, "least").values())
    audit = cli.json("audit", "--action", "canary promote")
    assert [(one["via"], one["object"], one["outcome"]) for one in audit] == [("canary", generation, "done")]
    wait_until(lambda: (status(cli)["way_back"] or {}).get("ready"), "the way back is ready", 240)
    feed.send(500)
    wait_until(lambda: served(cli, "total") == counted(feed.sent, total), "more is served", 240)
    wanted = counted(feed.sent, f"count(*) as ticks, {total}")
    began = time.monotonic()
    to = status(cli)["way_back"]["to"]
    done = cli.run("rollback", "--to", to, "--wait", "120")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: served(cli, "ticks", "total") == wanted, "the old job is back, exact", 120)
    print(f"back after {time.monotonic() - began:.1f} s")
    assert "is continuing with the claim" in done.stdout
    feed.send(500)
    wanted = counted(feed.sent, f"count(*) as ticks, {total}")
    wait_until(lambda: served(cli, "ticks", "total") == wanted, "the old job goes on", 240)
    assert cli.run("milestones", "--check").returncode == 0


@pytest.mark.timeout(1_500)
def test_a_wrong_filter_is_dropped_with_the_keys_that_differ(cli: Cli) -> None:
    feed = Feed(cli)
    feed.send(BEGUN)
    wait_until(lambda: cli.events_shown() == BEGUN, "the first events are served")
    wrong = ("--job-file", str(cli.folder / "wrong.yaml"))
    cli.json("canary", "start", *wrong, "--milestones", "1000", "--differences", "0")
    found = feed.until({"given up"})
    assert (found["verdict"], found["way_back"]) == ("drop", None)
    assert found["differing"] > 0
    left_out = {
        (one["key"], one["at"] - one["at"] % 60_000) for one in EVENTS[BEGUN : feed.sent] if one["value"] >= 900
    }
    named = {
        (one["key"], round(datetime.fromisoformat(one["window_start"]).timestamp() * 1000))
        for one in found["differences"]
    }
    assert named
    assert named <= left_out
    whole = status(cli, "--diff", "--limit", "1000")["diff"]
    differing = {
        (one["key"], round(datetime.fromisoformat(one["window_start"]).timestamp() * 1000))
        for one in whole["differences"]
    }
    assert named <= differing <= left_out
    assert whole["events_only_before"] == whole["events_only_after"] == 0
    assert len(differing) == found["differing"]
    wanted = counted(feed.sent, "count(*) as ticks, sum(value) as total")
    wait_until(lambda: served(cli, "ticks", "total") == wanted, "the job itself is right", 240)
