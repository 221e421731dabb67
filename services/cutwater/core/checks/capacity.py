"""What a job adds to a cluster: bytes written, read and kept. The formula of docs/OPERATING.md, over plain values.

Rows of the changelog follow from how many different (key, window) pairs one epoch touches. A sample of the events
says it by counting. Without one, keys are taken to come all alike: E events an epoch touch
K * (1 - (1 - 1/K)^E) of K keys; uneven keys touch fewer, so this is the most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from cutwater.core.checks.event_sample import SKETCH_FULL_BYTES, SKETCH_LIST_BYTES, RowSizes, SampleFigures
from cutwater.core.events.formats import JSON
from cutwater.core.job.job import Job
from cutwater.core.job.measures import Measure
from cutwater.core.protocol.topics import DELETE_RETENTION_MS

DAY_S = 86_400.0
COMPACTION_LAG_S = DAY_S
TEXT_BYTES = 16
RECORD_BYTES = 20
"""A Kafka record around its key, value and headers, as part of a batch."""
HEADERS_BYTES = 36
"""The writer: name, value, lengths."""
SINGLE_OBJECT_BYTES = 10
WINDOW_BYTES = 12
JSON_ROW_BYTES = 130
"""Sequence, kind and window of an output row in JSON, names and quotation marks included."""
JSON_FIELD_BYTES = 12
"""What a measure in JSON has besides its name and what Avro would take."""
PROTOCOL_BYTES = 260
"""A barrier or milestone without its cuts, in its own transaction (a batch and a marker)."""
CUT_BYTES = 42
"""One (topic, partition, offset)."""
DIRTY_SHARE = 2.0
"""Kafka compacts when half of a log is old: up to twice the live rows are kept."""
TOMBSTONES_S = DELETE_RETENTION_MS / 1_000
"""So long a cleared row's tombstone stays."""
SURE_FACTOR = 2.0
"""What a sample says of a row's bytes, of state, changelog and output is within this factor; else it is said."""


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
class Sizes:
    """Bytes of one record, Kafka's own share in it."""

    row: float
    """Of the state, with all events of its window."""
    written: float
    """Of the changelog, as an epoch writes it."""
    output: float


@dataclass(frozen=True)
class Estimate:
    """What the job adds, before Kafka's own copies; bytes, and bytes per second."""

    rows_per_s: float
    row_bytes: float
    """One row of the state."""
    written_row_bytes: float
    """One record of the changelog, as it is written."""
    output_row_bytes: float
    """One record of the output; 0 where there is none."""
    changelog_write_bytes_per_s: float
    output_write_bytes_per_s: float
    protocol_write_bytes_per_s: float
    source_read_bytes_per_s: float
    changelog_read_bytes_per_s: float
    """By the view, and by the publisher where there is an output."""
    live_rows: float
    changelog_disk_bytes: float
    """Live rows, rows below the horizon that are not cleared yet, old ones, and the day that compaction waits."""
    output_disk_bytes: float
    """After its retention."""
    closed_rows_bytes_per_day: float
    """Growth by windows below the horizon: 0, unless clearing them is switched off (CUTWATER_COLLECT_SHARE=1)."""
    protocol_disk_bytes_per_day: float
    """Barriers and milestones are kept."""
    view_bytes: float
    """The state, at most, before `max_bytes` lets go of any."""
    local_disk_bytes: float
    """On the machine of the stack: the served view, and Spark's state with its last versions."""

    def disk_bytes(self, days: float, copies: int) -> float:
        """On the cluster after so many days, all copies together."""
        grown = (self.closed_rows_bytes_per_day + self.protocol_disk_bytes_per_day) * days
        return (self.changelog_disk_bytes + self.output_disk_bytes + grown) * copies

    def network_bytes_per_s(self, copies: int) -> float:
        """In and out of the brokers, their own copying included."""
        written = (
            self.changelog_write_bytes_per_s + self.output_write_bytes_per_s + self.protocol_write_bytes_per_s
        )
        return written * (1 + (copies - 1)) + self.source_read_bytes_per_s + self.changelog_read_bytes_per_s


def estimate(
    job: Job,
    load: Load,
    sizes: Sizes | None = None,
    sampled: SampleFigures | None = None,
    collect_share: float = 0.5,
) -> Estimate:
    """What `job` adds under `load`.

    `sizes`: as measured where the job ran, or by a sample; else by the types. `sampled`: rows by counting; where
    it is None, or says nothing of them, all keys come alike. `collect_share`: from which share of the changelog
    below the horizon windows are cleared; 1 for never.
    """
    size = sizes or sizes_of(job)
    windows = job.window.size_ms / job.window.slide_ms
    epochs_per_s = 1 / load.epoch_s
    rows_per_s, keys_per_window = _rows(job, load, sampled, epochs_per_s)
    partitions = load.source_partitions + job.shards.partitions
    # A barrier, a hint, and a milestone with the same cuts.
    protocol = epochs_per_s * (3 * PROTOCOL_BYTES + 2 * CUT_BYTES * partitions)
    live_windows = math.ceil((job.retention_ms + job.lateness_ms) / job.window.slide_ms) + windows
    live = live_windows * keys_per_window
    open_windows = math.ceil(job.lateness_ms / job.window.slide_ms) + windows
    left_per_day = keys_per_window * DAY_S * 1_000 / job.window.slide_ms
    changelog = rows_per_s * size.written
    output = _output_rows(job, rows_per_s, left_per_day / DAY_S) * size.output
    view = live * size.row
    kept = view if job.max_bytes is None else min(view, float(job.max_bytes))
    return Estimate(
        rows_per_s=rows_per_s,
        row_bytes=size.row,
        written_row_bytes=size.written,
        output_row_bytes=size.output,
        changelog_write_bytes_per_s=changelog,
        output_write_bytes_per_s=output,
        protocol_write_bytes_per_s=protocol,
        source_read_bytes_per_s=load.events_per_s * (load.event_bytes + RECORD_BYTES),
        changelog_read_bytes_per_s=changelog * (2 if size.output else 1),
        live_rows=live,
        changelog_disk_bytes=changelog * COMPACTION_LAG_S
        + view * DIRTY_SHARE
        + _below_horizon(job, view, left_per_day, collect_share),
        output_disk_bytes=output * job.output.retention_ms / 1_000,
        closed_rows_bytes_per_day=left_per_day * size.row if collect_share >= 1 else 0.0,
        protocol_disk_bytes_per_day=protocol * DAY_S,
        view_bytes=view,
        local_disk_bytes=kept * DIRTY_SHARE + open_windows * keys_per_window * size.row * 4,
    )


def _rows(job: Job, load: Load, sampled: SampleFigures | None, epochs_per_s: float) -> tuple[float, float]:
    """Rows that are written a second, and keys of one window: counted, or with all keys alike."""
    windows = job.window.size_ms / job.window.slide_ms
    events = min(load.events_per_s * load.epoch_s, float(job.max_events_per_epoch))
    rows = touched(load.keys, events) * windows
    keys = touched(load.keys, load.events_per_s * job.window.size_ms / 1_000)
    if sampled is not None:
        rows = rows if sampled.rows_per_epoch is None else sampled.rows_per_epoch
        keys = keys if sampled.rows_per_window is None else sampled.rows_per_window
    return rows * epochs_per_s, keys


def _output_rows(job: Job, rows_per_s: float, closed_per_s: float) -> float:
    """Each changed row, or each row once."""
    return closed_per_s if job.output.mode == "final" else rows_per_s


def _below_horizon(job: Job, view: float, left_per_day: float, share: float) -> float:
    """Rows that wait to be cleared, and the tombstones of those that were."""
    if share >= 1:
        return 0.0
    tombstones = left_per_day / DAY_S * TOMBSTONES_S * (RECORD_BYTES + HEADERS_BYTES + _key_bytes(RowSizes()))
    return view * share / (1 - share) + tombstones


def unknown(job: Job, sampled: SampleFigures | None, measured: bool, said: bool) -> list[str]:
    """Why figures are only upper bounds, one sentence each; none where they are good to a factor of SURE_FACTOR.

    `measured`: are bytes per row read off rows of this job? `said`: is there another rate, or another number of
    keys, than the sample shows?
    """
    lines = []
    if sampled is None:
        lines.append(
            "no event of the source could be sampled: all keys are taken to come alike, which is the most"
        )
        sketches = [one.name for one in job.measures if one.kind == "distinct"]
        if sketches and not measured:
            lines.append(
                f"a sketch of {' and '.join(sketches)} takes {SKETCH_LIST_BYTES} B to {SKETCH_FULL_BYTES:,} B, by "
                "how many different values a window has: the largest is taken"
            )
        return lines
    if said:
        lines.append("rate or keys are not the sample's: all keys are taken to come alike, which is the most")
    elif sampled.rows_per_window is None:
        lines.append(
            f"the {sampled.events:,} sampled events span {sampled.span_ms / 1_000:,.0f} s and hold no whole "
            "window: how many keys a window has is not known, those of the sample are taken to come alike"
        )
    if not said and sampled.rows_per_epoch is None:
        lines.append(
            f"the {sampled.events:,} sampled events are less than one epoch: its rows are at most as said"
        )
    return lines


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


def sizes_of(job: Job, state: RowSizes | None = None, written: RowSizes | None = None) -> Sizes:
    """Records of the job, from the types of its measures and from what a sample says of texts and sketches."""
    state = state or RowSizes()
    output = 0.0 if job.output.mode == "none" else _output_bytes(job, state)
    return Sizes(row_bytes_of(job, state), row_bytes_of(job, written or state), output)


def row_bytes_of(job: Job, known: RowSizes | None = None) -> float:
    """One changelog record: key, value and headers."""
    known = known or RowSizes()
    values = sum(_bytes_of(partial.avro, one, known) for one in job.measures for partial in one.partials)
    return RECORD_BYTES + HEADERS_BYTES + _key_bytes(known) + SINGLE_OBJECT_BYTES + values


def _key_bytes(known: RowSizes) -> float:
    return SINGLE_OBJECT_BYTES + 1 + known.key + WINDOW_BYTES


def _output_bytes(job: Job, known: RowSizes) -> float:
    """One output record: the group key as Kafka's key, and sequence, kind, key, window and measures as value."""
    presented = sum(_bytes_of(one.output, replace(one, kind=""), known) for one in job.measures)
    if job.output.format != JSON:
        return RECORD_BYTES + known.key + SINGLE_OBJECT_BYTES + 5 + known.key + WINDOW_BYTES + presented
    names = sum(len(one.name) + JSON_FIELD_BYTES for one in job.measures)
    return RECORD_BYTES + 2 * known.key + JSON_ROW_BYTES + names + presented


def _bytes_of(avro: Any, measure: Measure, known: RowSizes) -> float:
    """A partial in Avro, its branch of the union included."""
    if measure.kind == "distinct":
        return known.sketches.get(measure.name, float(SKETCH_FULL_BYTES)) + 3
    if isinstance(avro, dict) and avro.get("type") == "record":
        return 1 + sum(_bytes_of(field["type"], measure, known) for field in avro["fields"])
    logical = avro.get("logicalType") if isinstance(avro, dict) else None
    plain = str(avro.get("type") if isinstance(avro, dict) else avro)
    if plain in ("string", "bytes") and not logical:
        return known.texts.get(measure.field or "", float(TEXT_BYTES)) + 2
    sizes = {"boolean": 2, "int": 4, "long": 6, "float": 5, "double": 9}
    return 9 if logical else sizes.get(plain, TEXT_BYTES)
