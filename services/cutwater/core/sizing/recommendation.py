"""Partitions, processes, disks and traffic for a job, each with the calculation that it comes from."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.checks import capacity
from cutwater.core.checks.capacity import Estimate, Load
from cutwater.core.job.job import Job
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.machine import GB, Machine

PARTITIONS_MAX = 10_000
HOT_KEY_ROOM = 1.25
"""What the partition of the hottest key may have, by that key's events."""
REHYDRATORS_MAX = 10_000
CADENCES_S = (3_600.0, 900.0, 300.0, 60.0)
"""Intervals between snapshots that are tried, the cheapest first."""
JVM_GB = 1.25
"""Of the driver's heap and what is beside it (`CUTWATER_SPARK_DRIVER_MEMORY` of 1g)."""
STATE_VERSIONS = 4
"""Of Spark's state on its disk."""
EVENT_BYTES_IN_MEMORY = 150
"""Of the JVM for an event of the epoch that it works on, beyond the event's own bytes."""
_LIGHT = frozenset({"count", "sum", "min", "max", "avg", "any", "every", "value"})
REHYDRATOR_GB = 0.5
"""Of a rehydrator with its restore (benchmarks/README.md, B1)."""


class Figure(NamedTuple):
    name: str
    value: float
    unit: str
    why: str
    """The calculation, with its numbers."""


@dataclass(frozen=True)
class Sizing:
    figures: Sequence[Figure]
    warnings: Sequence[str]
    estimate: Estimate
    """Of the mean load."""

    def __getitem__(self, name: str) -> float:
        return next(one.value for one in self.figures if one.name == name)


class _Rows(NamedTuple):
    """Implements `cutwater.core.checks.capacity.RowCounts`."""

    rows_per_epoch: float | None
    rows_per_window: float | None


class _Restore(NamedTuple):
    rehydrators: int
    interval_s: float
    seconds: float
    """With the longest tail."""


def size_job(job: Job, demand: Demand, machine: Machine) -> Sizing:
    """Return what the job needs at its peak; disks and traffic at its mean."""
    mean = _estimate(job, demand, demand.events_per_s)
    peak = _estimate(job, demand, demand.peak_events_per_s)
    figures: list[Figure] = []
    warnings: list[str] = []
    cores = _driver_cores(job, demand, machine, peak)
    source = _partitions(demand, machine, cores, job)
    restore = _restore(demand, machine, mean, peak)
    figures += [_cores_figure(job, demand, machine, peak, cores), source, _changelog_figure(source, restore)]
    figures += [*_driver(job, demand, machine, mean, cores), *_rehydrators(demand, machine, mean, restore)]
    warnings += [*_hot_key(job, demand, machine), *_bounded(job, demand), *capacity.sketch_doubts(job)]
    if restore.seconds > demand.recovery_s:
        warnings.append(
            f"a restore takes {restore.seconds:,.0f} s and the target is {demand.recovery_s:,.0f} s: the start "
            "alone, or the tail since the newest snapshot, takes longer. Raise the target, or use a faster machine"
        )
    figures += _brokers(demand, mean, peak)
    return Sizing(figures, warnings, mean)


def _estimate(job: Job, demand: Demand, events_per_s: float) -> Estimate:
    windows = job.row_windows.size_ms / job.row_windows.slide_ms
    per_epoch = min(events_per_s * demand.epoch_s, float(job.max_events_per_epoch))
    rows = _Rows(
        demand.keys.touched(per_epoch) * windows,
        demand.keys.touched(events_per_s * job.row_windows.size_ms / 1_000),
    )
    load = Load(events_per_s, demand.keys.keys, demand.event_bytes, demand.epoch_s)
    return capacity.estimate(job, load, sampled=rows)


def event_us(job: Job, machine: Machine) -> float:
    """Return the driver's CPU time for an event, without the rows that it changes."""
    light = sum(one.kind in _LIGHT for one in job.measures)
    return machine.event_us + machine.measure_us * light + machine.sketch_us * (len(job.measures) - light)


def _driver_cores(job: Job, demand: Demand, machine: Machine, peak: Estimate) -> float:
    busy = demand.peak_events_per_s * event_us(job, machine) / 1e6 + peak.rows_per_s * machine.row_us / 1e6
    return (busy + machine.epoch_ms / 1_000 / demand.epoch_s) / machine.utilisation


def _cores_figure(job: Job, demand: Demand, machine: Machine, peak: Estimate, cores: float) -> Figure:
    return Figure(
        "driver_cores",
        math.ceil(cores),
        "cores",
        f"({demand.peak_events_per_s:,.0f} events/s at the peak * {event_us(job, machine):.2f} µs + "
        f"{peak.rows_per_s:,.0f} rows/s * {machine.row_us:g} µs + {machine.epoch_ms:g} ms of each epoch of "
        f"{demand.epoch_s:g} s) / {machine.utilisation:.0%} of a core = {cores:.2f}",
    )


def _partition_limit(job: Job, demand: Demand, machine: Machine) -> float:
    """Return the share of the peak that one partition can have: of one core, and of a topic's partition."""
    by_core = machine.utilisation * 1e6 / event_us(job, machine) / demand.peak_events_per_s
    by_bytes = machine.partition_bytes_per_s / (demand.peak_events_per_s * demand.event_bytes)
    return min(by_core, by_bytes)


def _partitions(demand: Demand, machine: Machine, cores: float, job: Job) -> Figure:
    limit = _partition_limit(job, demand, machine)
    wanted = max(limit, demand.keys.hottest * HOT_KEY_ROOM)  # more partitions do not divide a key
    number = _least(max(1, math.ceil(cores)), PARTITIONS_MAX, lambda one: demand.keys.largest_share(one) <= wanted)
    share = demand.keys.largest_share(number)
    return Figure(
        "source_partitions",
        number,
        "partitions",
        f"at least {math.ceil(cores)}, one for each of the driver's cores; the fullest of {number:,} has "
        f"{share:.2%} of the events, and one partition can have {min(limit, 1.0):.2%}",
    )


def _changelog_figure(source: Figure, restore: _Restore) -> Figure:
    number = max(int(source.value), restore.rehydrators)
    why = f"as many as the source, and one for each of {restore.rehydrators:,} rehydrators"
    return Figure("changelog_partitions", number, "partitions", why)


def _bounded(job: Job, demand: Demand) -> Iterator[str]:
    wanted = demand.peak_events_per_s * demand.epoch_s
    if wanted > job.max_events_per_epoch:
        yield (
            f"max_events_per_epoch is {job.max_events_per_epoch:,}, and at the peak an epoch of "
            f"{demand.epoch_s:g} s has {wanted:,.0f} events: raise it, or epochs follow each other without a pause"
        )


def _hot_key(job: Job, demand: Demand, machine: Machine) -> Iterator[str]:
    limit, hot = _partition_limit(job, demand, machine), demand.keys.hottest
    if hot > limit:
        yield (
            f"the hottest key has {hot:.2%} of the events, and one partition can have {limit:.2%}: no number of "
            "partitions helps. Add a column to the key, or spread the key over several"
        )


def _driver(job: Job, demand: Demand, machine: Machine, mean: Estimate, cores: float) -> Iterator[Figure]:
    events = min(max(demand.peak_events_per_s * demand.epoch_s, 0), job.max_events_per_epoch)
    held = events * (demand.event_bytes + EVENT_BYTES_IN_MEMORY) / GB
    yield Figure(
        "driver_memory_gb",
        JVM_GB + held,
        "GB",
        f"{JVM_GB:g} GB of the JVM + {events:,.0f} events of an epoch * "
        f"{demand.event_bytes + EVENT_BYTES_IN_MEMORY} B",
    )
    yield Figure(
        "driver_disk_gb",
        mean.local_disk_bytes / GB,
        "GB",
        "open windows in four versions of Spark's state, and the view twice while it is sorted",
    )
    yield Figure(
        "driver_machines",
        max(math.ceil(cores / machine.cores), math.ceil((JVM_GB + held) / machine.memory_gb)),
        "machines",
        f"{math.ceil(cores)} cores / {machine.cores} of a machine, and the memory / {machine.memory_gb:g} GB",
    )
    state = mean.local_disk_bytes / STATE_VERSIONS / machine.restore_bytes_per_s
    yield Figure(
        "driver_restart_s",
        machine.start_s + state,
        "s until the first epoch",
        f"{machine.start_s:g} s to start + {state:,.2f} s for the state's newest version, if its disk is lost",
    )


def _restore(demand: Demand, machine: Machine, mean: Estimate, peak: Estimate) -> _Restore:
    """Return the fewest rehydrators that are back in time, and the longest interval between snapshots for that."""
    following = max(1, math.ceil(peak.rows_per_s * machine.view_row_us / 1e6 / machine.utilisation))
    shortest = CADENCES_S[-1]
    number = _least(
        following, REHYDRATORS_MAX, lambda one: _restore_s(machine, mean, one, shortest) <= demand.recovery_s
    )
    in_time = (one for one in CADENCES_S if _restore_s(machine, mean, number, one) <= demand.recovery_s)
    interval_s = next(in_time, shortest)
    return _Restore(number, interval_s, _restore_s(machine, mean, number, interval_s))


def _least(first: int, last: int, fits: Callable[[int], bool]) -> int:
    """Return the least number from `first` on that fits, at most `last`: if one fits, larger ones do."""
    return min(bisect_left(range(first, last), True, key=fits) + first, max(first, last))


def _restore_s(machine: Machine, mean: Estimate, rehydrators: int, interval_s: float) -> float:
    snapshot = mean.view_bytes / rehydrators / machine.restore_bytes_per_s
    tail = mean.rows_per_s * interval_s / rehydrators / machine.replay_rows_per_s
    return VIEW_START_S + snapshot + tail


VIEW_START_S = 1.0
"""A rehydrator's interpreter, imports and service."""


def _rehydrators(demand: Demand, machine: Machine, mean: Estimate, restore: _Restore) -> Iterator[Figure]:
    share = mean.view_bytes / restore.rehydrators
    yield Figure(
        "rehydrators",
        restore.rehydrators,
        "processes, beside their replicas",
        f"each restores {share / GB:,.3g} GB at {machine.restore_bytes_per_s / GB:g} GB/s and the rows of "
        f"{restore.interval_s:,.0f} s at {machine.replay_rows_per_s:,.0f} rows/s within {demand.recovery_s:g} s",
    )
    tail = mean.rows_per_s * restore.interval_s / restore.rehydrators / machine.replay_rows_per_s
    yield Figure(
        "restore_s",
        restore.seconds,
        "s at most",
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
        f"{mean.live_rows / restore.rehydrators:,.0f} rows of {mean.row_bytes:,.0f} B, twice while sorted",
    )
    yield Figure("rehydrator_memory_gb", REHYDRATOR_GB, "GB each", "RocksDB's bound, and a restore's processes")


def _brokers(demand: Demand, mean: Estimate, peak: Estimate) -> Iterator[Figure]:
    disk = mean.changelog_disk_bytes + mean.output_disk_bytes
    yield Figure(
        "broker_disk_gb",
        disk * demand.copies / GB,
        f"GB, {demand.copies} copies, without the source",
        f"changelog {mean.changelog_disk_bytes / GB:,.3g} GB + output {mean.output_disk_bytes / GB:,.3g} GB",
    )
    yield Figure(
        "broker_network_mb_per_s",
        peak.network_bytes_per_s(demand.copies) / 1e6,
        "MB/s at the peak, in and out",
        f"changelog {peak.changelog_write_bytes_per_s / 1e6:,.3g} MB/s, output "
        f"{peak.output_write_bytes_per_s / 1e6:,.3g} MB/s, source {peak.source_read_bytes_per_s / 1e6:,.3g} MB/s",
    )
    if demand.mirrored:
        yield Figure(
            "region_network_mb_per_s",
            region_bytes_per_s(peak) / 1e6,
            "MB/s at the peak, to the other region",
            "source, changelog, barriers and milestones, not compressed",
        )


def region_bytes_per_s(found: Estimate) -> float:
    """Return what a mirror copies: the source, the changelog, and the commit stream."""
    return found.source_read_bytes_per_s + found.changelog_write_bytes_per_s + found.protocol_write_bytes_per_s
