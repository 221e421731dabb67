"""One stack of the demonstration's job under three rates, one after the other, behind a warm-up."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from rocksdict import Rdict

from benchmarks.harness.command import print_line
from benchmarks.harness.measurement import Sampler, cpu_between
from benchmarks.sizing.figures import Figures, p50_s
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.http.client_options import direct_options
from cutwater.core.errors import UnavailableError
from cutwater.core.sizing.skew import KeySkew
from cutwater.local.calibration.load import (
    DRIVER,
    FAST,
    PATIENCE_S,
    SENDER,
    Load,
    Loading,
    Work,
    loading,
    warm_up,
)
from cutwater.local.stack.stack import Stack
from cutwater.views.store.rocksdb_tuning import MEMORY_BYTES, Tuning

WARM_EVENTS, WARM_RATE, WARM_S = 100_000, 1_000.0, 15.0
"""A round of the warm-up: so many events as fast as this machine can, and small epochs."""
SETTLE_S = 10.0
"""Of each rate, before it counts."""
CENSUS_MS = 5_000


class Stage(NamedTuple):
    """One rate."""

    figures: Figures
    before: Sequence[Work]
    """All that was sent until its end."""


class Run(NamedTuple):
    stages: Sequence[Stage]
    works: Sequence[Work]
    files_by_bytes: float
    """The view's files, once they are flushed and compacted, by its keys and values."""


def measure(job_file: Path, keys: KeySkew, rates: Sequence[float], seconds: float, seed: int) -> Run:
    folder = Path(tempfile.mkdtemp(prefix="cutwater-sizing-"))
    settings = load_settings().model_copy(update={"data_dir": folder, "snapshots": ""})
    stack = Stack(job_file, settings, print_line, extra_env={"CUTWATER_VIEW_CENSUS_MS": str(CENSUS_MS)})
    try:
        with loading(stack) as loads:
            loads.first_epoch_s()
            warm_up(loads, (Load(FAST, PATIENCE_S, keys, WARM_EVENTS), Load(WARM_RATE, WARM_S, keys)))
            stages = [_stage(loads, Load(rate, seconds, keys), seed) for rate in rates]
            counted = _census(stack)["bytes"]
        return Run(stages, loads.works, _files_bytes(folder / "views") / counted)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stage(loads: Loading, load: Load, seed: int) -> Stage:
    loads.run(load._replace(seconds=SETTLE_S), seed)
    with ExitStack() as stack:
        driver, others = (stack.enter_context(Sampler(_pids(loads, one))) for one in (True, False))
        done = loads.run(load, seed + 1)
        for one in (driver, others):
            one.sample()
    spent_s = done.ended_s - done.began_s
    rows = sum(one.rows for one in done.milestones if one.written_ms / 1_000 <= done.ended_s)
    beside_s = cpu_between(others.samples, done.began_s, done.ended_s) + done.cpu_s[SENDER]
    figures = Figures(
        cpu_between(driver.samples, done.began_s, done.ended_s) / spent_s,
        p50_s(done.milestones, done.before, done.began_s, load.rate),
        rows / spent_s,
        _census(loads.stack)["bytes"] / 1e6,
        beside_s / spent_s,
    )
    print_line(f"{load.rate:,.0f} events/s: {figures}")
    return Stage(figures, list(loads.works))


def _pids(loads: Loading, driver: bool) -> Callable[[], list[int]]:
    """Return what returns the processes of the driver, or of all other members."""
    members = [one.child for one in loads.stack.supervisor.members if (one.child.name == DRIVER) == driver]
    return lambda: [pid for one in members for pid in one.pids()]


def _census(stack: Stack) -> dict[str, Any]:
    """Return a census of the view that began after now. Raises UnavailableError if there is none for long."""
    url = f"{stack.api_url}/v1/sizes"
    asked_s, deadline = time.time(), time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        answer = httpx.get(url, headers=stack.api_headers, **direct_options(url))
        if answer.status_code == 200:
            found: dict[str, Any] = answer.json()
            if datetime.fromisoformat(found["counted"]).timestamp() - found["seconds"] > asked_s:
                return found
        time.sleep(0.5)
    raise UnavailableError(f"the rehydrator has counted no rows for {PATIENCE_S:.0f} s")


def _files_bytes(views: Path) -> int:
    """Return the bytes of all sorted files, behind a flush and a compaction."""
    total = 0
    for folder in sorted({path.parent for path in views.rglob("CURRENT")}):
        tuning = Tuning(MEMORY_BYTES)
        db = Rdict(str(folder), tuning.options, column_families={"default": tuning.options})
        db.compact_range(None, None)
        total += tuning.figures(db, 0).live_bytes
        db.close()
    return total
