"""How many rehydrators restore in time, with which snapshots."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cutwater.core.checks import capacity
from cutwater.core.checks.capacity import Estimate
from cutwater.core.job.job import Job
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.figures import Figure
from cutwater.core.sizing.machine import GB, Machine

REHYDRATORS_MAX = 10_000
CADENCES_S = (3_600.0, 900.0, 300.0, 60.0)
"""Intervals between snapshots that are tried, the cheapest first."""
VIEW_START_S = 1.0
"""A rehydrator's interpreter, imports and service."""
REHYDRATOR_GB = 0.5
"""Of a rehydrator with its restore (benchmarks/README.md, B1)."""


class Restore(NamedTuple):
    rehydrators: int
    interval_s: float
    seconds: float
    """With the longest tail, at mean load."""


def restore_of(job: Job, demand: Demand, machine: Machine, mean: Estimate, peak: Estimate) -> Restore:
    """Return the fewest rehydrators that restore in time, with the longest interval between snapshots for that.

    If no number is enough: those that follow the changelog.
    """

    def seconds(number: int, interval_s: float) -> float:
        snapshot = _share_bytes(job, mean, number) / machine.restore_bytes_per_s
        return VIEW_START_S + snapshot + _tail_s(machine, mean, number, interval_s)

    following = max(1, math.ceil(peak.rows_per_s * machine.view_row_us / 1e6 / machine.utilisation))
    shortest, target = CADENCES_S[-1], demand.recovery_s
    number = least_that_fits(
        following, max(following, REHYDRATORS_MAX), lambda one: seconds(one, shortest) <= target
    )
    if seconds(number, shortest) > target:
        number = following
    interval_s = next((one for one in CADENCES_S if seconds(number, one) <= target), shortest)
    return Restore(number, interval_s, seconds(number, interval_s))


def _share_bytes(job: Job, mean: Estimate, rehydrators: int) -> float:
    share = mean.view_bytes / rehydrators
    return share if job.max_bytes is None else min(share, float(job.max_bytes))


def _tail_s(machine: Machine, mean: Estimate, rehydrators: int, interval_s: float) -> float:
    return mean.rows_per_s * interval_s / rehydrators / machine.replay_rows_per_s


def rehydrator_figures(
    job: Job, demand: Demand, machine: Machine, mean: Estimate, restore: Restore
) -> Iterator[Figure]:
    share = _share_bytes(job, mean, restore.rehydrators)
    tail = _tail_s(machine, mean, restore.rehydrators, restore.interval_s)
    yield Figure(
        "rehydrators",
        restore.rehydrators,
        "processes, without standbys",
        f"each restores {share / GB:,.3g} GB at {machine.restore_bytes_per_s / GB:g} GB/s and the rows of "
        f"{restore.interval_s:,.0f} s at {machine.replay_rows_per_s:,.0f} rows/s; the target is "
        f"{demand.recovery_s:g} s",
    )
    yield Figure(
        "restore_s",
        restore.seconds,
        "s from a new process to its answers",
        f"{VIEW_START_S:g} s to start + {share / machine.restore_bytes_per_s:,.2f} s of the snapshot + "
        f"{tail:,.2f} s of the tail",
    )
    yield Figure(
        "snapshot_interval_s",
        restore.interval_s,
        "s",
        f"the longest of {', '.join(f'{one:,.0f}' for one in CADENCES_S)} with a restore in time",
    )
    yield Figure(
        "rehydrator_disk_gb",
        share * capacity.DIRTY_SHARE / GB,
        "GB each",
        f"{share / mean.view_row_bytes:,.0f} rows of {mean.view_row_bytes:,.0f} B, twice while they are sorted",
    )
    yield Figure("rehydrator_memory_gb", REHYDRATOR_GB, "GB each", "RocksDB's bound, and a restore's processes")


def least_that_fits(first: int, last: int, fits: Callable[[int], bool]) -> int:
    """Return the least number from `first` on that fits, else `last`. If a number fits, larger ones do."""
    return min(bisect_left(range(first, last), True, key=fits) + first, last)
