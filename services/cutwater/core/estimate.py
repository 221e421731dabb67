"""What a job adds to a cluster: bytes written, read and kept. The formula of docs/OPERATING.md, over plain values.

Rows of the changelog follow from how many different (key, window) pairs one epoch touches. With keys that all
come alike, E events an epoch touch K * (1 - (1 - 1/K)^E) of K keys; uneven keys touch fewer, so this is the most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from cutwater.core.job import Job

DAY_S = 86_400.0
COMPACTION_LAG_S = DAY_S
KEY_TEXT_BYTES = 16
TEXT_BYTES = 16
SKETCH_BYTES = 4_152
"""An HLL sketch of 4,096 registers in full, one byte each, and its head; young ones are smaller."""
RECORD_BYTES = 20
"""A Kafka record around its key, value and headers, as part of a batch."""
HEADERS_BYTES = 36
"""The writer: name, value, lengths."""
SINGLE_OBJECT_BYTES = 10
WINDOW_BYTES = 12
PROTOCOL_BYTES = 260
"""A barrier or milestone without its cuts, in its own transaction (a batch and a marker)."""
CUT_BYTES = 42
"""One (topic, partition, offset)."""
DIRTY_SHARE = 2.0
"""Kafka compacts when half of a log is old: up to twice the live rows are kept."""


@dataclass(frozen=True)
class Load:
    """What comes in."""

    events_per_s: float = 1_000.0
    keys: int = 10_000
    event_bytes: int = 200
    epoch_s: float = 0.5
    """Time between two epochs."""
    source_partitions: int = 4


@dataclass(frozen=True)
class Estimate:
    """What the job adds, before Kafka's own copies; bytes, and bytes per second."""

    rows_per_s: float
    row_bytes: float
    changelog_write_bytes_per_s: float
    protocol_write_bytes_per_s: float
    source_read_bytes_per_s: float
    changelog_read_bytes_per_s: float
    live_rows: float
    changelog_disk_bytes: float
    """Live rows, uncompacted ones, and the day that compaction waits."""
    closed_rows_bytes_per_day: float
    """Windows that have left the state are not cleared from the changelog yet: it grows by this."""
    protocol_disk_bytes_per_day: float
    """Barriers and milestones are not pruned yet."""
    view_bytes: float
    """The state, at most, before `max_bytes` lets go of any."""
    local_disk_bytes: float
    """On the machine of the stack: the served view, and Spark's state with its last versions."""

    def disk_bytes(self, days: float, copies: int) -> float:
        """On the cluster after so many days, all copies together."""
        grown = (self.closed_rows_bytes_per_day + self.protocol_disk_bytes_per_day) * days
        return (self.changelog_disk_bytes + grown) * copies

    def network_bytes_per_s(self, copies: int) -> float:
        """In and out of the brokers, their own copying included."""
        written = self.changelog_write_bytes_per_s + self.protocol_write_bytes_per_s
        return written * (1 + (copies - 1)) + self.source_read_bytes_per_s + self.changelog_read_bytes_per_s


def estimate(job: Job, load: Load, row_bytes: float | None = None) -> Estimate:
    """What `job` adds under `load`. `row_bytes`: as measured where it ran; else by the types."""
    size = row_bytes or row_bytes_of(job)
    windows = job.window.size_ms / job.window.slide_ms
    epochs_per_s = 1 / load.epoch_s
    events = min(load.events_per_s * load.epoch_s, float(job.max_events_per_epoch))
    rows_per_s = touched(load.keys, events) * windows * epochs_per_s
    partitions = load.source_partitions + job.shards.partitions
    # A barrier, a hint, and a milestone with the same cuts.
    protocol = epochs_per_s * (3 * PROTOCOL_BYTES + 2 * CUT_BYTES * partitions)
    live_windows = math.ceil((job.retention_ms + job.lateness_ms) / job.window.slide_ms) + windows
    events_per_window = load.events_per_s * job.window.size_ms / 1_000
    keys_per_window = touched(load.keys, events_per_window)
    live = live_windows * keys_per_window
    open_windows = math.ceil(job.lateness_ms / job.window.slide_ms) + windows
    changelog = rows_per_s * size
    view = live * size
    kept = view if job.max_bytes is None else min(view, float(job.max_bytes))
    return Estimate(
        rows_per_s=rows_per_s,
        row_bytes=size,
        changelog_write_bytes_per_s=changelog,
        protocol_write_bytes_per_s=protocol,
        source_read_bytes_per_s=load.events_per_s * (load.event_bytes + RECORD_BYTES),
        changelog_read_bytes_per_s=changelog,
        live_rows=live,
        changelog_disk_bytes=changelog * COMPACTION_LAG_S + live * size * DIRTY_SHARE,
        closed_rows_bytes_per_day=keys_per_window * DAY_S * 1_000 / job.window.slide_ms * size,
        protocol_disk_bytes_per_day=protocol * DAY_S,
        view_bytes=view,
        local_disk_bytes=kept * DIRTY_SHARE + open_windows * keys_per_window * size * 4,
    )


def doubts(job: Job, found: Estimate) -> list[str]:
    """What a person should know before the job runs."""
    if job.max_bytes is None or found.view_bytes <= job.max_bytes:
        return []
    share = job.max_bytes / found.view_bytes
    return [
        f"max_bytes is {share:.0%} of what the state comes to: the view lets go of closed windows before the "
        "retention does. Raise it, shorten the retention, or share the partitions among more rehydrators: the "
        "bound is each one's own."
    ]


def touched(keys: int, events: float) -> float:
    """How many of `keys` get at least one of `events`, when all come alike."""
    if keys <= 1 or events <= 0:
        return min(float(max(keys, 0)), max(events, 0.0))
    return min(events, keys * -math.expm1(events * math.log1p(-1 / keys)))


def row_bytes_of(job: Job) -> float:
    """One changelog record: key, value and headers, from the types of the job's partials."""
    key = SINGLE_OBJECT_BYTES + 2 + KEY_TEXT_BYTES + WINDOW_BYTES
    values = sum(_bytes_of(partial.avro, measure.kind) for measure in job.measures for partial in measure.partials)
    return RECORD_BYTES + HEADERS_BYTES + key + SINGLE_OBJECT_BYTES + values


def _bytes_of(avro: Any, kind: str) -> int:
    """A partial in Avro, its branch of the union included."""
    if kind == "distinct":
        return SKETCH_BYTES
    if isinstance(avro, dict) and avro.get("type") == "record":
        return 1 + sum(_bytes_of(field["type"], "") for field in avro["fields"])
    logical = avro.get("logicalType") if isinstance(avro, dict) else None
    plain = str(avro.get("type") if isinstance(avro, dict) else avro)
    sizes = {"boolean": 2, "int": 4, "long": 6, "float": 5, "double": 9, "string": TEXT_BYTES + 2, "bytes": 12}
    return 9 if logical else sizes.get(plain, TEXT_BYTES)
