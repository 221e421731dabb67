"""Sliding windows through a whole stack: what each reader gets against windows that pandas makes of the events."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from cutwater.client import committed
from support.cli.commandline import Cli, running_stack
from support.events import counting
from support.harness import wait_until

SIZE_MS, SLIDE_MS = 60_000, 25_000
"""Their greatest common divisor is five seconds: a window has twelve panes."""
FIRST, SECOND = counting.events(600, seed=3), counting.events(600, seed=4)
Shown = dict[tuple[str, int], tuple[int, int]]
"""Ticks and total by key and start of the window."""


def expected(made: list[dict[str, Any]]) -> Shown:
    rows = [
        {"key": one["key"], "start": start, "value": one["value"]}
        for one in made
        for start in range(one["at"] // SLIDE_MS * SLIDE_MS, one["at"] - SIZE_MS, -SLIDE_MS)
    ]
    groups = pd.DataFrame(rows).groupby(["key", "start"])["value"].agg(["count", "sum"])
    return {
        (str(key), int(start)): (int(row["count"]), int(row["sum"])) for (key, start), row in groups.iterrows()
    }


def millis(moment: Any) -> int:
    return round((datetime.fromisoformat(moment) if isinstance(moment, str) else moment).timestamp() * 1000)


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    text = counting.job_text("sliding").replace(
        "{kind: tumbling, size: 1m}", f"{{kind: sliding, size: {SIZE_MS}ms, slide: {SLIDE_MS}ms}}"
    )
    with running_stack(tmp_path, text) as made:
        yield made


def produce(cli: Cli, made: list[dict[str, Any]], shown: int) -> None:
    cli.produce(made)

    def there() -> bool:
        status = cli.json("status")
        newest = status["milestone"]
        current = newest and status["view"].get("token") == newest["token"]
        return bool(current) and sum(newest["source_cut"].values()) == shown

    wait_until(there, f"{shown} events in the view")


@pytest.mark.slow
@pytest.mark.spark
def test_every_reader_gets_whole_windows(cli: Cli) -> None:
    """View, export and output, after milestones that changed some panes of the same windows."""
    produce(cli, FIRST, len(FIRST))
    produce(cli, SECOND, len(FIRST) + len(SECOND))
    wanted = expected([*FIRST, *SECOND])
    told = cli.json("verify", "--state")
    assert {one["place"]: (one["verdict"], one["reason"]) for one in told["places"]} == dict.fromkeys(
        ("changelog", "view", "state", "output"), ("equal", "")
    )
    assert told["places"][0]["found"]["rows"] == len(wanted)
    rows = cli.json("get", "k7", "--limit", "1000")["rows"]
    found = {("k7", millis(row["window_start"])): (row["ticks"], row["total"]) for row in rows}
    assert found == {at: row for at, row in wanted.items() if at[0] == "k7"}
    cli.json("export", cli.job_file, "--out", str(cli.folder / "rows.parquet"))
    table = pq.read_table(cli.folder / "rows.parquet").to_pylist()
    assert {(row["key"], millis(row["window_start"])): (row["ticks"], row["total"]) for row in table} == wanted
    said: Shown = {}
    bootstrap = cli.json("status")["stack"]["bootstrap_servers"]
    with pytest.MonkeyPatch.context() as env:
        env.setenv("CUTWATER_BOOTSTRAP_SERVERS", bootstrap)
        for milestone in committed(cli.job_file, idle_s=5):
            said |= {
                (one.key, one.window_start_ms): (one.values["ticks"], one.values["total"])
                for one in milestone.changes
            }
    assert said == wanted
