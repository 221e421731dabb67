"""Bytes and requests of a month, by kind, and what they cost by a price list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.checks.capacity import Estimate
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.figures import Sizing
from cutwater.core.sizing.machine import GB
from cutwater.core.sizing.recommendation import region_bytes_per_s

MONTH_S = 730 * 3_600.0
SNAPSHOT_FILE_BYTES = 64e6
REWRITTEN = 3.0
"""Bytes of new snapshot files by the bytes of new rows: files are merged with others."""
CHECKPOINT_FILES = 3
"""Of an epoch, beside one for each partition's state: offsets, commit, and a request that lists them."""
HOURLY_KEPT, DAILY_KEPT = 24, 7
"""Snapshots that are kept by default, beside the newest."""
RESTORES = 30
"""In a month."""


@dataclass(frozen=True)
class Prices:
    """Of a price list that the user gives. Prices that are missing are 0."""

    currency: str = ""
    core_hour: float = 0.0
    memory_gb_hour: float = 0.0
    disk_gb_month: float = 0.0
    object_gb_month: float = 0.0
    put_1000: float = 0.0
    get_1000: float = 0.0
    network_gb: float = 0.0
    """Between processes and brokers of a region."""
    region_gb: float = 0.0
    """From one region to another."""


class Amount(NamedTuple):
    """Of one kind, in a month."""

    name: str
    value: float
    unit: str
    cost: float


def monthly_amounts(sizing: Sizing, demand: Demand, prices: Prices) -> Iterator[Amount]:
    mean, hours = sizing.estimate, MONTH_S / 3_600
    cores = sizing["driver_cores"] + sizing["rehydrators"]
    memory = sizing["driver_memory_gb"] + sizing["rehydrators"] * sizing["rehydrator_memory_gb"]
    yield Amount("cores", cores * hours, "core-hours", cores * hours * prices.core_hour)
    yield Amount("memory", memory * hours, "GB-hours", memory * hours * prices.memory_gb_hour)
    disk = (
        sizing["broker_disk_gb"] + sizing["driver_disk_gb"] + sizing["rehydrators"] * sizing["rehydrator_disk_gb"]
    )
    yield Amount("disk", disk, "GB", disk * prices.disk_gb_month)
    for name, rate in (
        ("source read", mean.source_read_bytes_per_s),
        ("changelog written", mean.changelog_write_bytes_per_s),
        ("changelog read", mean.changelog_read_bytes_per_s),
        ("output written", mean.output_write_bytes_per_s),
        ("barriers and milestones", mean.protocol_write_bytes_per_s),
        ("between brokers", mean.written_bytes_per_s * (demand.copies - 1)),
    ):
        amount = rate * MONTH_S / GB
        yield Amount(name, amount, "GB", amount * prices.network_gb)
    if demand.mirrored:
        amount = region_bytes_per_s(mean) * MONTH_S / GB
        yield Amount("to the other region", amount, "GB", amount * prices.region_gb)
    yield from _of_object_store(sizing, demand, prices)


def _of_object_store(sizing: Sizing, demand: Demand, prices: Prices) -> Iterator[Amount]:
    """Yield what snapshots take, and a checkpoint that is in an object store."""
    mean, interval_s = sizing.estimate, sizing["snapshot_interval_s"]
    kept = snapshots_bytes(mean, HOURLY_KEPT, DAILY_KEPT) / GB
    yield Amount("snapshots kept", kept, "GB", kept * prices.object_gb_month)
    new = _new_bytes(mean, interval_s)
    snapshots = MONTH_S / interval_s * sizing["rehydrators"]
    files = new / sizing["rehydrators"] / SNAPSHOT_FILE_BYTES + 2  # its manifest, and the file of the newest rows
    yield Amount("snapshot writes", snapshots * files, "requests", snapshots * files / 1_000 * prices.put_1000)
    reads = RESTORES * (mean.view_bytes / SNAPSHOT_FILE_BYTES + sizing["rehydrators"]) / sizing["rehydrators"]
    yield Amount("restores, one a day", reads, "requests", reads / 1_000 * prices.get_1000)
    if demand.remote_checkpoint:
        puts = MONTH_S / demand.epoch_s * (sizing["shuffle_partitions"] + CHECKPOINT_FILES)
        yield Amount("checkpoint writes", puts, "requests", puts / 1_000 * prices.put_1000)


def snapshots_bytes(mean: Estimate, hours: int, days: int) -> float:
    """Return the bytes of the newest snapshot and of one for each of so many hours and days: they share files."""
    return mean.view_bytes + hours * _new_bytes(mean, 3_600.0) + days * _new_bytes(mean, 86_400.0)


def _new_bytes(mean: Estimate, span_s: float) -> float:
    """Return the bytes of snapshot files that such a time makes, at most the whole view's."""
    return min(mean.rows_per_s * span_s * mean.view_row_bytes * REWRITTEN, mean.view_bytes)
