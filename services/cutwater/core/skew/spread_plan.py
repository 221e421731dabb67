"""The spreading plan: which keys' events a producer distributes over several partitions of the source.

Each version is one record with the whole plan, so a producer never works with half of one. Versions only grow.
Rows do not depend on it, because the job groups by key: a producer that works with an earlier version, or with
none, is not wrong, but gives no relief.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job

KEYS_MAX = 1_000
"""Keys of a plan: its record stays small, and a producer looks each event's key up."""
SILENT_MS = 180_000
"""A producer that said nothing for so long has ended, or is cut off. It speaks each minute."""
FORGOTTEN_MS = 86_400_000
"""After so long its record is removed, with the next version."""
ORDERED_KINDS = {
    "first": "of events with the same event time",
    "last": "of events with the same event time",
    "min_by": "of events with the same deciding value and event time",
    "max_by": "of events with the same deciding value and event time",
}
"""Measures that choose one event, and among which events the place in the source decides."""


class SpreadKey(NamedTuple):
    """A key whose events are distributed evenly over these partitions."""

    key: str
    partitions: tuple[int, ...]
    """Ascending, at least two."""
    since_version: int
    """The version from which on it is spread so."""


@dataclass(frozen=True)
class Spread:
    """One version of the plan. An empty plan spreads nothing."""

    job: str
    version: int
    source_partitions: int
    """The source's partitions when the version was made."""
    keys: tuple[SpreadKey, ...]
    """Ordered by key."""
    made_by: str
    reason: str
    at_ms: int

    def find(self, key: str) -> SpreadKey | None:
        return next((one for one in self.keys if one.key == key), None)


@dataclass(frozen=True)
class Adoption:
    """A producer says with which version it works."""

    job: str
    producer: str
    """User, host, process number and a random part."""
    version: int
    """0: without a plan."""
    at_ms: int


def home_partition(key: bytes, partitions: int) -> int:
    """Return the partition that librdkafka's default partitioner selects for a key."""
    return zlib.crc32(key) % partitions


def spread_partitions(key: str, over: int, load: Sequence[int]) -> tuple[int, ...]:
    """Return the partitions for a key: its own, and the `over` - 1 with the least load of the others.

    `load`: the source's recent records by partition. Raises UsageError if `over` is not from 2 to their number.
    """
    if not 2 <= over <= len(load):
        raise UsageError(
            f"--over {over}: the source has {len(load)} partitions, and a key is spread over 2 to all of them"
        )
    home = home_partition(key.encode(), len(load))
    others = sorted((at for at in range(len(load)) if at != home), key=lambda at: (load[at], at))
    return tuple(sorted((home, *others[: over - 1])))


def with_key(
    plan: Spread | None, job: str, key: str, partitions: Sequence[int], of: int, by: str, reason: str, at_ms: int
) -> Spread:
    """Return the next version, with this key. `of`: the source's partitions. Raises UsageError for a full plan."""
    version = plan.version + 1 if plan else 1
    others = [one for one in plan.keys if one.key != key] if plan else []
    if len(others) >= KEYS_MAX:
        raise UsageError(f"the plan has {KEYS_MAX} keys already: a hash of more is what the partitioner does")
    made = SpreadKey(key, tuple(partitions), version)
    return Spread(job, version, of, tuple(sorted((*others, made))), by, reason, at_ms)


def without_key(plan: Spread | None, key: str, by: str, reason: str, at_ms: int) -> Spread:
    """Return the next version, without this key. Raises UsageError if it is not in the plan."""
    if plan is None or plan.find(key) is None:
        raise UsageError(f"key {key} is not spread: 'cutwater skew plan' lists the keys that are")
    keys = tuple(one for one in plan.keys if one.key != key)
    return Spread(plan.job, plan.version + 1, plan.source_partitions, keys, by, reason, at_ms)


def spread_obstacles(job: Job, compacted: bool) -> tuple[str, ...]:
    """Return why no key of this job may be spread. `compacted`: whether the source topic is."""
    found = []
    if job.upstream:
        found.append(f"the source is the output of job {job.upstream}, whose publisher selects the partitions")
    if job.attached:
        found.append("the job is a query of your own: Cutwater does not know whether it groups by this key")
    elif not _is_record_key(job):
        found.append("the key is computed, so records have no key, and are spread by their producer already")
    if compacted:
        found.append("the source topic is compacted: each partition would keep a newest record of the key")
    return tuple(found)


def order_losses(job: Job) -> tuple[str, ...]:
    """Return what a spread key loses in the measures that choose an event by its place in the source.

    Their order is (event time, origin, partition, offset). Of events of one key in one partition with the same
    event time the last sent is last. In several partitions the number of the partition decides. The result is
    still the same for each reader and each repetition.
    """
    return tuple(
        f"{one.name} ({one.kind}): {ORDERED_KINDS[one.kind]} the partition decides, no longer the order of sending"
        for one in job.counted_measures
        if one.kind in ORDERED_KINDS
    )


def _is_record_key(job: Job) -> bool:
    computed = {*job.column_types, *(one.name for one in job.element_columns)}
    return computed.isdisjoint(job.key_fields)


class Placement:
    """The partitions of the events of one producer by a plan: in turn over those of the key."""

    def __init__(self, plan: Spread | None, partitions: int, first: int = 0) -> None:
        """`partitions`: of the source now. `first`: where the turns begin, different for each producer."""
        self.version = plan.version if plan else 0
        self._turns: dict[bytes, int] = {}
        self._first = first
        self._of: Mapping[bytes, tuple[int, ...]] = {
            one.key.encode(): found
            for one in (plan.keys if plan else ())
            if len(found := tuple(at for at in one.partitions if at < partitions)) > 1
        }

    def partition(self, key: bytes | None) -> int | None:
        """Return the partition for the next event of a key; None if the partitioner selects it."""
        if key is None or (found := self._of.get(key)) is None:
            return None
        turn = self._turns.get(key, self._first)
        self._turns[key] = turn + 1
        return found[turn % len(found)]
