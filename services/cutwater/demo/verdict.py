"""The demonstration's verdict: view, output topic and late list, compared with DuckDB over the same events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pandas as pd

from cutwater.adapters.http.client_options import direct_options
from cutwater.adapters.runtime.terminal import Terminal
from cutwater.core.errors import UnavailableError
from cutwater.core.util.text_tables import Table, table
from cutwater.demo import compare, flights, late_list, oracle, output_topic, plot
from cutwater.demo.target import Target


def verdict(target: Target, events: pd.DataFrame, pictures: Path, console: Terminal) -> int:
    """Compare and show; return 0 if everything is equal, else 1."""
    cluster, job = target.cluster, target.job
    listed = late_list.read_late_list(cluster, job, events)
    expected = oracle.expected(events, job.window.size_ms, job.window.slide_ms, listed.pairs)
    wanted = oracle.rows(expected)
    console.table(_busiest_table(oracle.busiest(expected)))
    picture = pictures / "delays.png"
    plot.delays_by_hour(expected, picture)
    console.print(f"delays by hour of the day: {picture}")
    wrong = False
    for url in target.views:
        served = [row for row in served_rows(url, target.headers) if row["airport"] != flights.CLOSING_AIRPORT]
        wrong |= _compare("served" if len(target.views) == 1 else f"served by {url}", wanted, served, console)
    if job.output.mode != "none":
        by_milestone, faults = output_topic.by_milestone(cluster, job)
        wrong |= _compare(
            "published", wanted, output_topic.read_rows(output_topic.by_plain_consumer(cluster, job)), console
        )
        wrong |= _compare("in complete milestones", wanted, output_topic.read_rows(by_milestone), console) or bool(
            faults
        )
        for fault in faults:
            console.print(f"not complete: {fault}")
    lost = late_list.check_pairs(events, job.window, listed, sum(row["movements"] for row in served))
    for line in lost.lines:
        console.print(line)
    return 1 if wrong or lost else 0


def _compare(what: str, wanted: list[dict[str, Any]], found: list[dict[str, Any]], console: Terminal) -> bool:
    differences = compare.compare(wanted, found)
    if differences:
        console.table(compare.table(differences))
    console.print(
        f"{len(found):,} rows {what}, {len(wanted):,} expected by DuckDB: "
        f"{differences.missing} missing, {differences.unexpected} unexpected, {differences.different} different"
    )
    return bool(differences)


def _busiest_table(rows: pd.DataFrame) -> Table:
    columns = ("airport", "hour (UTC)", "movements", "mean delay, min", "carriers")
    shown = (
        (
            row["airport"],
            pd.Timestamp(row["window_start_ms"], unit="ms").strftime("%Y-%m-%d %H:00"),
            *(int(row["movements"]), f"{row['mean_delay']:.1f}", int(row["carriers"])),
        )
        for row in rows.to_dict("records")
    )
    return table("the ten busiest airport-hours", columns, shown)


def served_rows(api_url: str, headers: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield every row of the view, page by page, for the comparison."""
    after: str | None = None
    with httpx.Client(base_url=api_url, headers=headers, timeout=60.0, **direct_options(api_url)) as api:
        while True:
            query: dict[str, Any] = {"limit": 10_000} | ({"after": after} if after else {})
            answer = api.get("/v1/state", params=query)
            if not answer.is_success:
                raise UnavailableError(f"{api_url}/v1/state answered {answer.status_code}: {answer.text[:300]}")
            page = answer.json()
            for row in page["rows"]:
                start = datetime.fromisoformat(row["window_start"])
                yield {**row, "airport": row["key"], "window_start_ms": round(start.timestamp() * 1000)}
            after = page["next"]
            if after is None:
                return
