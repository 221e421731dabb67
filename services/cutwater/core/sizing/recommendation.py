"""Partitions, processes, disks and traffic for a job, each with the calculation that it comes from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from cutwater.core.checks import capacity
from cutwater.core.checks.capacity import Estimate, Load
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.job.kinds.frequent_items import TOP
from cutwater.core.job.shards import MAX_SHARDS
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.epoch_work import beside_cores, epoch_ms, epoch_s_of, event_us, row_us, rows_of, work_s
from cutwater.core.sizing.figures import Figure, Sizing
from cutwater.core.sizing.machine import GB, Machine
from cutwater.core.sizing.rehydrators import Restore, least_that_fits, rehydrator_figures, restore_of
from cutwater.core.sizing.row_sizes import row_sizes

PARTITIONS_MAX = 10_000
HOT_KEY_ROOM = 1.25
"""What the partition of the hottest key may have, by that key's events."""
EPOCH_LONGER = 1.01
JVM_GB = 1.5
"""Of the driver's heap, its state and what is beside them (`CUTWATER_SPARK_DRIVER_MEMORY` of 1g)."""
EVENT_BYTES_IN_MEMORY = 150
"""Of the JVM for an event of the epoch that it works on, beyond the event's own bytes."""


class _Rows(NamedTuple):
    """Implements `cutwater.core.checks.capacity.RowCounts`."""

    rows_per_epoch: float | None
    rows_per_window: float | None


def size_job(job: Job, demand: Demand, machine: Machine) -> Sizing:
    """Return what the job needs at its peak; disks and traffic at its mean.

    Raises UsageError for a load that needs more partitions than a job has shards at most.
    """
    peak = estimate_for(job, demand, demand.peak_events_per_s)
    cores = _driver_cores(job, demand, machine, peak)
    shared = machine.cores if demand.one_machine else math.ceil(cores)
    wanted_s, demand = demand.epoch_s, replace(demand, epoch_s=epoch_s_of(job, demand, machine, shared))
    peak = estimate_for(job, demand, demand.peak_events_per_s)
    mean = estimate_for(job, demand, demand.events_per_s)
    cores = _driver_cores(job, demand, machine, peak)
    source = _source_partitions(job, demand, machine, cores)
    restore = restore_of(job, demand, machine, mean, peak)
    changelog = max(source, restore.rehydrators)
    if changelog > MAX_SHARDS:
        raise UsageError(
            f"this load needs {changelog:,} partitions of the changelog, and a job has at most {MAX_SHARDS:,}: "
            "divide its keys among several jobs"
        )
    # Barriers and milestones name each partition.
    peak = estimate_for(job, demand, demand.peak_events_per_s, source, changelog)
    mean = estimate_for(job, demand, demand.events_per_s, source, changelog)
    figures = [
        *_of_driver(job, demand, machine, peak, cores),
        *_of_others(job, demand, machine, peak),
        *_of_partitions(job, demand, machine, cores, source, restore),
        *_of_disks(machine, mean),
        *rehydrator_figures(job, demand, machine, mean, restore),
        *_of_brokers(demand, mean, peak),
    ]
    warnings = [
        *_warnings(job, demand, machine, source, restore),
        *_of_epochs(demand, wanted_s),
        *_of_one_machine(job, demand, machine, peak),
        *_of_values(job, demand),
        *capacity.doubts(job, mean),
    ]
    return Sizing(figures, warnings, mean)


def estimate_for(job: Job, demand: Demand, events_per_s: float, source: int = 1, changelog: int = 1) -> Estimate:
    """`source`, `changelog`: their partitions."""
    per_epoch = events_per_s * demand.epoch_s
    rows = _Rows(
        rows_of(job, demand, per_epoch, demand.epoch_s),
        demand.keys.touched(events_per_s * job.row_windows.size_ms / 1_000),
    )
    load = Load(events_per_s, demand.keys.keys, demand.event_bytes, demand.epoch_s, source)
    sized = replace(job, shards=replace(job.shards, partitions=changelog, shards=_shards(job, changelog)))
    sizes = capacity.sizes_of(job, *row_sizes(job, demand, events_per_s))
    return capacity.estimate(sized, load, sizes, rows)


def _shards(job: Job, partitions: int) -> int:
    """Return the job's shards, or the next power of two that has one for each partition."""
    return max(job.shards.shards, 1 << (partitions - 1).bit_length())


def _driver_cores(job: Job, demand: Demand, machine: Machine, peak: Estimate) -> float:
    return _busy_cores(job, demand, machine, peak) / machine.utilisation


def _busy_cores(job: Job, demand: Demand, machine: Machine, peak: Estimate) -> float:
    busy = work_s(job, machine, demand.peak_events_per_s, peak.rows_per_s)
    return busy + epoch_ms(job, machine) / 1_000 / demand.epoch_s


def _others(job: Job, demand: Demand, machine: Machine, peak: Estimate) -> float:
    """Return the cores that all but the driver take at the peak."""
    return beside_cores(job, machine, demand.peak_events_per_s, peak.rows_per_s, 1 / demand.epoch_s)


def _of_others(job: Job, demand: Demand, machine: Machine, peak: Estimate) -> Iterator[Figure]:
    if demand.one_machine:
        yield Figure(
            "beside_cores",
            _others(job, demand, machine, peak),
            "cores at the peak, beside the driver",
            f"{machine.beside_cores:g} of broker and services without events, and what "
            f"{demand.peak_events_per_s:,.0f} events/s, {peak.rows_per_s:,.0f} rows/s and an epoch each "
            f"{demand.epoch_s:.3g} s cost them",
        )


def _of_one_machine(job: Job, demand: Demand, machine: Machine, peak: Estimate) -> Iterator[str]:
    needed = _busy_cores(job, demand, machine, peak) + _others(job, demand, machine, peak)
    if demand.one_machine and needed > machine.cores:
        yield (
            f"driver, services, broker and producers need {needed:.2g} cores at the peak, and the machine has "
            f"{machine.cores}: the driver yields to the others and falls behind"
        )


def _of_values(job: Job, demand: Demand) -> Iterator[str]:
    """Yield what the sizes of sketches are computed from, if nobody has said it."""
    names = [one.name for one in job.counted_measures if one.kind in ("distinct", TOP)]
    if names and demand.values is None:
        yield (
            f"the bytes of {' and '.join(names)} are for rows in which each event has another value; with fewer "
            "different ones (--values) rows are smaller"
        )


def _of_driver(job: Job, demand: Demand, machine: Machine, peak: Estimate, cores: float) -> Iterator[Figure]:
    yield Figure(
        "driver_cores",
        math.ceil(cores),
        "cores",
        f"({demand.peak_events_per_s:,.0f} events/s at the peak * {event_us(job, machine):.2f} µs + "
        f"{peak.rows_per_s:,.0f} rows/s * {row_us(job, machine):.2f} µs + {epoch_ms(job, machine):g} ms of each "
        f"epoch of {demand.epoch_s:g} s) / {machine.utilisation:.0%} of a core = {cores:.2f}",
    )
    events = min(demand.peak_events_per_s * demand.epoch_s, job.max_events_per_epoch)
    memory = JVM_GB + events * (demand.event_bytes + EVENT_BYTES_IN_MEMORY) / GB
    yield Figure(
        "driver_memory_gb",
        memory,
        "GB",
        f"{JVM_GB:g} GB of the JVM + {events:,.0f} events of an epoch * "
        f"{demand.event_bytes + EVENT_BYTES_IN_MEMORY} B",
    )
    yield Figure(
        "driver_machines",
        max(math.ceil(cores / machine.cores), math.ceil(memory / machine.memory_gb)),
        "machines",
        f"{math.ceil(cores)} cores / {machine.cores} of a machine, and the memory / {machine.memory_gb:g} GB",
    )


def _partition_limit(job: Job, demand: Demand, machine: Machine) -> float:
    """Return the share of the peak that one partition can have: of one core, and of a topic's partition."""
    by_core = machine.utilisation * 1e6 / event_us(job, machine) / demand.peak_events_per_s
    by_bytes = machine.partition_bytes_per_s / (demand.peak_events_per_s * demand.event_bytes)
    return min(by_core, by_bytes, 1.0)


def _source_partitions(job: Job, demand: Demand, machine: Machine, cores: float) -> int:
    # More partitions do not divide a key.
    wanted = max(_partition_limit(job, demand, machine), demand.keys.hottest * HOT_KEY_ROOM)
    least = min(max(1, math.ceil(cores)), PARTITIONS_MAX)
    return least_that_fits(least, PARTITIONS_MAX, lambda one: demand.keys.largest_share(one) <= wanted)


def _of_partitions(
    job: Job, demand: Demand, machine: Machine, cores: float, source: int, restore: Restore
) -> Iterator[Figure]:
    limit, share = _partition_limit(job, demand, machine), demand.keys.largest_share(source)
    yield Figure(
        "source_partitions",
        source,
        "partitions",
        f"at least {math.ceil(cores):,}, one for each of the driver's cores; the fullest of {source:,} has "
        f"{share:.3%} of the events, and one partition can have {limit:.3%}",
    )
    yield Figure(
        "shuffle_partitions",
        math.ceil(cores),
        "partitions of Spark's state",
        "one for each of the driver's cores",
    )
    changelog = max(source, restore.rehydrators)
    yield Figure(
        "changelog_partitions",
        changelog,
        "partitions",
        f"as many as the source, and one for each of {restore.rehydrators:,} rehydrators",
    )
    why = f"the job file has {job.shards.shards:,}, and each of {changelog:,} partitions has at least one"
    yield Figure("shards", _shards(job, changelog), "shards, which a job cannot change later", why)


def _warnings(job: Job, demand: Demand, machine: Machine, source: int, restore: Restore) -> Iterator[str]:
    limit, hot = _partition_limit(job, demand, machine), demand.keys.hottest
    share = demand.keys.largest_share(source)
    if hot > limit:
        yield (
            f"the hottest key has {hot:.2%} of the events, and one partition can have {limit:.2%}: no number of "
            "partitions helps. Add a column to the key, or spread the key over several"
        )
    elif share > limit and source >= PARTITIONS_MAX:
        yield (
            f"more than {PARTITIONS_MAX:,} partitions are not recommended, and the fullest has {share:.3%} of the "
            f"events where it can have {limit:.3%}: divide the job"
        )
    wanted = demand.peak_events_per_s * demand.epoch_s
    if wanted > job.max_events_per_epoch:
        yield (
            f"max_events_per_epoch is {job.max_events_per_epoch:,}, and at the peak an epoch of "
            f"{demand.epoch_s:g} s has {wanted:,.0f} events: raise it, else the backlog grows while the peak lasts"
        )
    if restore.seconds > demand.recovery_s:
        yield (
            f"a restore takes {restore.seconds:,.3g} s and the target is {demand.recovery_s:,.3g} s. No number of "
            "rehydrators is enough: raise the target, shorten the retention, or use a faster machine"
        )


def _of_epochs(demand: Demand, wanted_s: float) -> Iterator[str]:
    if demand.epoch_s > wanted_s * EPOCH_LONGER:
        yield f"an epoch takes {demand.epoch_s:.3g} s at the mean rate: it will be longer than {wanted_s:g} s"


def _of_disks(machine: Machine, mean: Estimate) -> Iterator[Figure]:
    yield Figure(
        "driver_disk_gb",
        mean.state_disk_bytes / GB,
        "GB",
        f"the open windows in {capacity.STATE_VERSIONS} versions of Spark's state",
    )
    newest = mean.state_disk_bytes / capacity.STATE_VERSIONS / machine.restore_bytes_per_s
    yield Figure(
        "driver_restart_s",
        machine.start_s + newest,
        "s until the first epoch",
        f"{machine.start_s:g} s to start + {newest:,.2f} s for the state's newest version, if its disk is lost",
    )


def _of_brokers(demand: Demand, mean: Estimate, peak: Estimate) -> Iterator[Figure]:
    yield Figure(
        "broker_disk_gb",
        mean.disk_bytes(0, demand.copies) / GB,
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
