"""When a drain began and ended, by traces that are the same for every contender of a kind.

Spark's are the files of its checkpoint: epoch N begins when `offsets/N` is written and ends with `commits/N`.
So the driver is measured as shipped, and the query without a sink by the same rule.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from cutwater_spark.checkpoint import parse_plan

COLD_EPOCHS = 2
"""Epochs in which the JVM loads and compiles: left out of the warm rate."""


@dataclass(frozen=True)
class Timeline:
    """Moments in seconds since 1970."""

    first_s: float
    last_s: float
    warm_events_per_s: float | None = None


def from_streams(result: Path) -> Timeline | None:
    """From the first record to the end of the flush and commit; None while the program runs."""
    if not result.exists():
        return None
    told = json.loads(result.read_text(encoding="utf-8"))
    return Timeline(told["first_ms"] / 1000, told["closed_ms"] / 1000)


def from_checkpoint(location: Path, events: int) -> Timeline | None:
    """From the plan of epoch 0 to the commit of the epoch that reads the last event; None before that."""
    commits = location / "commits"
    epochs = sorted(int(one.name) for one in commits.iterdir() if one.name.isdecimal()) if commits.exists() else []
    # Only the newest two need a look: an epoch without data may follow the last one with data.
    last = next((epoch for epoch in epochs[-3:] if _read_up_to(location, epoch) >= events), None)
    if last is None:
        return None
    first_s, last_s = _time(location / "offsets" / "0"), _time(commits / str(last))
    warm = None
    if last > COLD_EPOCHS:
        cold = COLD_EPOCHS - 1
        warm = (events - _read_up_to(location, cold)) / (last_s - _time(commits / str(cold)))
    return Timeline(first_s, last_s, warm)


def _read_up_to(location: Path, epoch: int) -> int:
    path = location / "offsets" / str(epoch)
    plan = parse_plan(path.read_text(encoding="utf-8"), str(path))
    return plan.source_cut.records


def _time(path: Path) -> float:
    return path.stat().st_mtime_ns / 1e9
