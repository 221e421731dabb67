"""A job under load: its events move on in time, so windows pass the horizon while a test breaks something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.protocol.records import Milestone
from cutwater.views.query.view import View
from cutwater.views.store.folders import folder_of
from cutwater.views.store.store import Store
from support.events import counting
from support.harness import GENERATION, Flow, flow

Rows = dict[tuple[str, int], dict[str, Any]]
"""The measures by (key, start of window)."""


class Load:
    """A job whose events move on in time with every portion."""

    def __init__(self, job: Flow) -> None:
        self.job = job
        self.made: list[dict[str, Any]] = []

    def more(self, count: int = 900) -> None:
        """Ten minutes of events, an hour after those before: three epochs."""
        ahead = 3_600_000 * (len(self.made) // count)
        part = [one | {"at": one["at"] + ahead} for one in counting.events(count, seed=len(self.made))]
        part.sort(key=lambda one: one["at"])
        self.made += part
        self.job.produce(part)

    def expected(self, milestone: Milestone) -> Rows:
        """The state above the milestone's horizon, by pandas."""
        return above(counting.expected(self.made), milestone)


def above(rows: Rows, milestone: Milestone) -> Rows:
    return {at: row for at, row in rows.items() if at[1] + 60_000 > milestone.horizon_ms}


@contextmanager
def loaded(cluster: Cluster, name: str, folder: Path) -> Iterator[Load]:
    """A job with a horizon of minutes and epochs of 300 events."""
    text = counting.job_text(name, per_epoch=300, retention="10m").replace("lateness: 1h", "lateness: 5m")
    with flow(cluster, text, folder, counting.SCHEMA) as made:
        yield Load(made)


def view_of(job: Flow, data_dir: Path | None = None) -> Rows:
    """Every row of the view, whose process has ended."""
    view = View(Store(folder_of(data_dir or job.folder, job.job.name, GENERATION), job.job, GENERATION), job.job)
    _, rows = view.rows()
    found = {}
    for row in rows:
        found[row["key"], row["window_start"]] = {one.name: row[one.name] for one in job.job.measures}
    view.close()
    return found
