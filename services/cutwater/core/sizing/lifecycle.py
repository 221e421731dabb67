"""What a job keeps, for how long, what removes it, and what that costs in a month; checked against a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.checks.capacity import Estimate
from cutwater.core.checks.findings import Finding, Level
from cutwater.core.checks.policy import CHECK, ResourceRule, bounds_text, longest_unit_text
from cutwater.core.job.job import Job
from cutwater.core.sizing.costs import Prices, snapshots_bytes
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.machine import GB
from cutwater.core.sizing.recommendation import estimate_for

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
ENDLESS_DAYS = 365
"""What is kept for ever is counted after a year."""
LISTED_BYTES = 250
"""Of a dead letter or late event beside its event: key, reason, place."""
CHANGELOG, GENERATIONS, OUTPUT = "changelog", "generations", "output"
LISTS, STREAMS, SNAPSHOTS, TOTAL = "lists", "streams", "snapshots", "total"
RESOURCES = (CHANGELOG, GENERATIONS, OUTPUT, LISTS, STREAMS, SNAPSHOTS)


@dataclass(frozen=True)
class Keeping:
    """The settings that say what stays. Numbers of snapshots; hours."""

    streams_hours: int
    generations_hours: int
    takes_snapshots: bool
    snapshot_hours: int
    snapshot_days: int


@dataclass(frozen=True)
class JobLoad:
    """The load that bytes are computed from."""

    demand: Demand
    rejected: float = 0.001
    """Share of events that are dead letters or late."""


class Resource(NamedTuple):
    name: str
    keep_ms: int | None
    """None: for ever."""
    by: str
    """What sets the time, and what removes the rest."""
    bytes: float | None = None
    """Of all copies; None without a load."""
    cost: float | None = None
    """In a month; None without a load or prices."""


def resources_of(
    job: Job, keeping: Keeping, load: JobLoad | None = None, prices: Prices | None = None
) -> list[Resource]:
    """Return what the job keeps on brokers and in the object store, with the sum of all as the last one."""
    partitions = job.shards.partitions
    mean = estimate_for(job, load.demand, load.demand.events_per_s, partitions, partitions) if load else None
    found = [
        _priced(name, keep_ms, by, _bytes(name, keep_ms, mean, load, keeping) if mean and load else None, prices)
        for name, keep_ms, by in _retention_times(job, keeping)
    ]
    return [*found, _sum(found)]


def _retention_times(job: Job, keeping: Keeping) -> Iterator[tuple[str, int | None, str]]:
    """Yield (name, time, what sets and removes)."""
    yield CHANGELOG, job.rows_retention_ms, "retention, from a window's end on; the driver clears"
    over = keeping.generations_hours * HOUR_MS
    yield GENERATIONS, over, "CUTWATER_KEEP_GENERATIONS_HOURS; 'cutwater generation prune' removes"
    if job.output.mode != "none":
        yield OUTPUT, job.output.retention_ms, "output.retention; the brokers remove"
    if not job.attached:
        bounded = job.lists_retention_ms is not None
        removes = "lists_retention; the brokers remove" if bounded else "no lists_retention; nothing removes"
        yield LISTS, job.lists_retention_ms, removes
    yield STREAMS, keeping.streams_hours * HOUR_MS, "CUTWATER_KEEP_STREAMS_HOURS; 'cutwater prune' removes"
    oldest = max(keeping.snapshot_hours * HOUR_MS, keeping.snapshot_days * DAY_MS)
    if keeping.takes_snapshots:
        yield SNAPSHOTS, oldest, "CUTWATER_SNAPSHOT_KEEP_DAYS and …_HOURS; the rehydrator removes"
    else:
        yield SNAPSHOTS, 0, "CUTWATER_SNAPSHOTS, which is not set: none is taken"


def _bytes(name: str, keep_ms: int | None, mean: Estimate, load: JobLoad, keeping: Keeping) -> float:
    days = ENDLESS_DAYS if keep_ms is None else keep_ms / DAY_MS
    if name == SNAPSHOTS and not keeping.takes_snapshots:
        return 0.0
    if name == SNAPSHOTS:
        return snapshots_bytes(mean, keeping.snapshot_hours, keeping.snapshot_days)
    demand = load.demand
    listed = demand.events_per_s * 86_400 * load.rejected * (demand.event_bytes + LISTED_BYTES)
    on_brokers = {
        CHANGELOG: mean.changelog_disk_bytes,
        GENERATIONS: mean.changelog_disk_bytes,
        OUTPUT: mean.output_disk_bytes,
        LISTS: listed * days,
        STREAMS: mean.protocol_disk_bytes_per_day * days,
    }
    return on_brokers[name] * demand.copies


def _priced(name: str, keep_ms: int | None, by: str, size: float | None, prices: Prices | None) -> Resource:
    if size is None or prices is None:
        return Resource(name, keep_ms, by, size)
    of_gb = prices.object_gb_month if name == SNAPSHOTS else prices.disk_gb_month
    return Resource(name, keep_ms, by, size, size / GB * of_gb)


def _sum(found: Sequence[Resource]) -> Resource:
    sizes = [one.bytes for one in found if one.bytes is not None]
    costs = [one.cost for one in found if one.cost is not None]
    longest = None if any(one.keep_ms is None for one in found) else max(one.keep_ms or 0 for one in found)
    size = sum(sizes) if len(sizes) == len(found) else None
    return Resource(TOTAL, longest, "all of them", size, sum(costs) if len(costs) == len(found) else None)


def check_lifecycle(
    rules: Mapping[str, ResourceRule], found: Sequence[Resource], currency: str = ""
) -> list[tuple[Resource, Finding]]:
    """Return a finding for each resource: what is kept, and an error if it breaks a rule.

    A rule about bytes or costs is broken if they are not known, since nothing holds it then.
    """
    return [(one, _finding(one, rules.get(one.name, ResourceRule()), currency)) for one in found]


def _finding(one: Resource, rule: ResourceRule, currency: str) -> Finding:
    said = f"lifecycle.{one.name}: {kept_text(one)}{_size_text(one, currency)}"
    broken = list(_broken(one, rule, currency))
    if not broken:
        return Finding(CHECK, Level.OK, said)
    return Finding(CHECK, Level.ERROR, said, "; ".join(broken))


def _broken(one: Resource, rule: ResourceRule, currency: str) -> Iterator[str]:
    if not rule.keep.holds(one.keep_ms):
        yield f"keep: allowed is {bounds_text(rule.keep, longest_unit_text)}; it is set by {one.by}"
    for name, bounds, value in (("bytes", rule.bytes, one.bytes), ("cost", rule.cost, one.cost)):
        if not bounds.is_set:
            continue
        if value is None:
            missing = "a load of the job: add it to the policy" if one.bytes is None else "prices: give --prices"
            yield f"{name}: unknown without {missing}"
        elif not bounds.holds(value):
            text = bytes_text if name == "bytes" else lambda amount: f"{amount:,.2f} {currency}".rstrip()
            yield f"{name}: allowed is {bounds_text(bounds, text)}; keep it shorter, or for fewer keys"


def kept_text(one: Resource) -> str:
    time = "for ever" if one.keep_ms is None else f"for {longest_unit_text(one.keep_ms)}"
    return time if one.name == TOTAL else f"{time}, by {one.by}"


def _size_text(one: Resource, currency: str) -> str:
    if one.bytes is None:
        return ""
    after = " after a year" if one.keep_ms is None else ""
    cost = "" if one.cost is None else f", {one.cost:,.2f} {currency}".rstrip() + " a month"
    return f"; {bytes_text(one.bytes)}{after}{cost}"


def bytes_text(count: float) -> str:
    """Return a size, such as 12.3 GB."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1_000:
            return f"{count:.3g} {unit}"
        count /= 1_000
    return f"{count:,.3g} TB" if count < 1_000 else f"{count:,.0f} TB"
