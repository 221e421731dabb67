"""The load of a job on a cluster: bytes written, read and kept, by the formula of docs/OPERATING.md.

The number of changelog rows is the number of different (key, window) pairs per epoch. A sample of the events gives
it by counting. Without a sample, keys are assumed equally frequent: E events touch K * (1 - (1 - 1/K)^E) of K
keys. Uneven keys touch fewer, so this is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from cutwater.core.checks.event_sample import RowSizes, SampleFigures
from cutwater.core.checks.sketch_sizes import sketch_bounds
from cutwater.core.events.formats import JSON
from cutwater.core.job.field_paths import column_paths
from cutwater.core.job.job import Job
from cutwater.core.job.kinds.frequent_items import TOP, kept_values
from cutwater.core.job.kinds.quantiles import KLL_BYTES
from cutwater.core.job.measures import Measure
from cutwater.core.protocol.topics import DELETE_RETENTION_MS

DAY_S = 86_400.0
COMPACTION_LAG_S = DAY_S
TEXT_BYTES = 16
RECORD_BYTES = 20
"""Kafka's overhead of a record within a batch."""
HEADERS_BYTES = 36
"""The header that names the writer, with its lengths."""
SINGLE_OBJECT_BYTES = 10
WINDOW_BYTES = 12
JSON_ROW_BYTES = 130
"""Sequence, kind and window of an output row in JSON, including names and quotation marks."""
JSON_FIELD_BYTES = 12
"""A measure in JSON beyond its name and its size in Avro."""
REGION_BYTES = 8
"""Of a region's name, with its length."""
SKETCH_FRAME_BYTES = 3
"""Whether there is one, and its length."""
_SKETCHES = frozenset({"distinct", "quantile"})
VIEW_LESS_BYTES = RECORD_BYTES + HEADERS_BYTES - 4
"""What a row has in the changelog beyond its key and value in a view, whose key is four bytes longer."""
PROTOCOL_BYTES = 260
"""A barrier or milestone without its cuts, in its own transaction (a batch and a marker)."""
CUT_BYTES = 42
DIRTY_SHARE = 2.0
"""Kafka compacts a log once half of it is old, so up to twice the live rows are kept."""
STATE_VERSIONS = 4
"""Of Spark's state on its disk."""
TOMBSTONES_S = DELETE_RETENTION_MS / 1_000
SURE_FACTOR = 2.0
"""Estimates from a sample are within this factor; `unknown` lists the exceptions."""


@dataclass(frozen=True)
class Load:
    events_per_s: float = 1_000.0
    keys: int = 10_000
    event_bytes: int = 200
    epoch_s: float = 0.5
    source_partitions: int = 4


class RowCounts(Protocol):
    """Counted, or computed from how frequent the keys are. None: unknown."""

    @property
    def rows_per_window(self) -> float | None: ...

    @property
    def rows_per_epoch(self) -> float | None: ...


@dataclass(frozen=True)
class Sizes:
    """Bytes of one record, including Kafka's overhead."""

    row: float
    """In the state, with all events of its window."""
    written: float
    """In the changelog, as an epoch writes it."""
    output: float
    state_only: float = 0.0
    """Of a row, what only Spark's state has: the measures of `kept: state`."""


@dataclass(frozen=True)
class Estimate:
    """The load of a job before replication, in bytes and bytes per second."""

    rows_per_s: float
    row_bytes: float
    written_row_bytes: float
    output_row_bytes: float
    """One record of the output; 0 if there is none."""
    changelog_write_bytes_per_s: float
    output_write_bytes_per_s: float
    protocol_write_bytes_per_s: float
    source_read_bytes_per_s: float
    changelog_read_bytes_per_s: float
    """By the view, and by the publisher if there is an output."""
    live_rows: float
    changelog_disk_bytes: float
    """Live rows, uncleared rows below the horizon, superseded rows, and one day of min.compaction.lag.ms."""
    output_disk_bytes: float
    closed_rows_bytes_per_day: float
    """Growth by windows below the horizon: 0 unless CUTWATER_COLLECT_SHARE is 1 (they are never cleared)."""
    protocol_disk_bytes_per_day: float
    view_bytes: float
    """Keys and values of the largest state, before `max_bytes` evicts windows. Files are smaller: compressed."""
    state_disk_bytes: float
    """The kept versions of Spark's state."""
    local_disk_bytes: float
    """On the machine of the stack: the served view, and the kept versions of Spark's state."""

    @property
    def view_row_bytes(self) -> float:
        """Key and value of a row in a view."""
        return max(self.row_bytes - VIEW_LESS_BYTES, 0.0)

    def disk_bytes(self, days: float, copies: int) -> float:
        """Return the bytes on the cluster after `days`, over all replicas."""
        grown = (self.closed_rows_bytes_per_day + self.protocol_disk_bytes_per_day) * days
        return (self.changelog_disk_bytes + self.output_disk_bytes + grown) * copies

    @property
    def written_bytes_per_s(self) -> float:
        """To all topics, before replication."""
        return self.changelog_write_bytes_per_s + self.output_write_bytes_per_s + self.protocol_write_bytes_per_s

    def network_bytes_per_s(self, copies: int) -> float:
        """Return the traffic in and out of the brokers, including replication."""
        return (
            self.written_bytes_per_s * (1 + (copies - 1))
            + self.source_read_bytes_per_s
            + self.changelog_read_bytes_per_s
        )


def estimate(
    job: Job,
    load: Load,
    sizes: Sizes | None = None,
    sampled: RowCounts | None = None,
    collect_share: float = 0.5,
) -> Estimate:
    """Return the load of `job` under `load`.

    `sizes`: measured on a running job or a sample; by default derived from the types. `sampled`: counted rows; if
    they are unknown, all keys are assumed to be equally frequent. `collect_share`: the share of closed windows in
    the changelog from which they are cleared; 1 for never.
    """
    size = sizes or sizes_of(job)
    windows = job.row_windows.size_ms / job.row_windows.slide_ms
    epochs_per_s = 1 / load.epoch_s
    rows_per_s, keys_per_window = _rows(job, load, sampled, epochs_per_s)
    partitions = load.source_partitions + job.shards.partitions
    # A barrier, a hint, and a milestone with the same cuts.
    protocol = epochs_per_s * (3 * PROTOCOL_BYTES + 2 * CUT_BYTES * partitions)
    live_windows = math.ceil((job.rows_retention_ms + job.lateness_ms) / job.row_windows.slide_ms) + windows
    live = live_windows * keys_per_window
    # A cleaning is due once as many windows are closed as stay.
    stay_ms = (
        job.lateness_ms if job.amend_for_ms is None else 2 * (job.lateness_ms + job.amend_for_ms + job.overlap_ms)
    )
    open_windows = math.ceil(stay_ms / job.row_windows.slide_ms) + windows
    left_per_day = keys_per_window * DAY_S * 1_000 / job.row_windows.slide_ms
    changelog = rows_per_s * size.written
    output = _output_rows(job, load, rows_per_s, left_per_day / DAY_S) * size.output
    view = live * max(size.row - VIEW_LESS_BYTES, 0.0)
    kept = view if job.max_bytes is None else min(view, float(job.max_bytes))
    state = open_windows * keys_per_window * (size.row + size.state_only) * STATE_VERSIONS
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
        + live * size.row * DIRTY_SHARE
        + _below_horizon(job, live * size.row, left_per_day, collect_share),
        output_disk_bytes=output * job.output.retention_ms / 1_000,
        closed_rows_bytes_per_day=left_per_day * size.row if collect_share >= 1 else 0.0,
        protocol_disk_bytes_per_day=protocol * DAY_S,
        view_bytes=view,
        state_disk_bytes=state,
        local_disk_bytes=kept * DIRTY_SHARE + state,
    )


def _rows(job: Job, load: Load, sampled: RowCounts | None, epochs_per_s: float) -> tuple[float, float]:
    """Return (rows written per second, keys of one window): counted, else with equally frequent keys."""
    windows = job.row_windows.size_ms / job.row_windows.slide_ms
    events = min(load.events_per_s * load.epoch_s, float(job.max_events_per_epoch))
    rows = touched(load.keys, events) * windows
    keys = touched(load.keys, load.events_per_s * job.row_windows.size_ms / 1_000)
    if sampled is not None:
        rows = rows if sampled.rows_per_epoch is None else sampled.rows_per_epoch
        keys = keys if sampled.rows_per_window is None else sampled.rows_per_window
    return rows * epochs_per_s, keys


def _output_rows(job: Job, load: Load, rows_per_s: float, closed_per_s: float) -> float:
    """Return the output's rows per second: windows, each of several panes if they overlap."""
    if not job.overlap_ms:
        return closed_per_s if job.output.mode == "final" else rows_per_s
    if job.output.mode == "final":
        keys = touched(load.keys, load.events_per_s * job.window.size_ms / 1_000)
        return keys * 1_000 / job.window.slide_ms
    return rows_per_s * job.window.per_event_max


def _below_horizon(job: Job, live_bytes: float, left_per_day: float, share: float) -> float:
    if share >= 1:
        return 0.0
    tombstones = left_per_day / DAY_S * TOMBSTONES_S * (RECORD_BYTES + HEADERS_BYTES + _key_bytes(RowSizes()))
    return live_bytes * share / (1 - share) + tombstones


def list_uncertainties(job: Job, sampled: SampleFigures | None, measured: bool, said: bool) -> list[str]:
    """Return why figures are only upper bounds; empty if they are good to a factor of SURE_FACTOR.

    `measured`: whether bytes per row were measured on rows of this job. `said`: whether the user gave another rate
    or number of keys than the sample has.
    """
    lines = []
    if sampled is None:
        why = "no event of the source could be sampled"
        if column_paths(job) is None:
            why = (
                "only Spark evaluates where, explode, transform and columns that are no paths: no sample is taken"
            )
        lines.append(f"{why}: keys are assumed equally frequent, which is an upper bound")
        return lines if measured else [*lines, *sketch_doubts(job)]
    if said:
        lines.append(
            "rate or keys are not the sample's: keys are assumed equally frequent, which is an upper bound"
        )
    elif sampled.rows_per_window is None:
        lines.append(
            f"the {sampled.events:,} sampled events span {sampled.span_ms / 1_000:,.0f} s and hold no whole "
            "window: its number of keys is unknown, and the sample's keys are assumed equally frequent"
        )
    if not said and sampled.rows_per_epoch is None:
        lines.append(
            f"the {sampled.events:,} sampled events are less than one epoch: its number of rows is an upper bound"
        )
    return lines


def sketch_doubts(job: Job) -> list[str]:
    """Return what the sizes of sketches depend on, if no event was sampled."""
    sketched: dict[tuple[int, int], list[str]] = {}
    for one in job.counted_measures:
        if one.kind == "distinct":
            sketched.setdefault(sketch_bounds(one), []).append(one.name)
    return [
        f"a sketch of {' and '.join(names)} takes {least} B to {most:,} B, depending on the number of "
        "different values in a window: the largest size is assumed"
        for (least, most), names in sketched.items()
    ]


def doubts(job: Job, found: Estimate) -> list[str]:
    if job.max_bytes is None or found.view_bytes <= job.max_bytes:
        return []
    share = job.max_bytes / found.view_bytes
    return [
        f"max_bytes is {share:.0%} of the expected state: the view evicts closed windows before the retention "
        "ends. Raise it, shorten the retention, or share the partitions among more rehydrators (the bound is per "
        "rehydrator)."
    ]


def touched(keys: int, events: float) -> float:
    """Return how many of `keys` get at least one of `events` if all are equally frequent."""
    if keys <= 1 or events <= 0:
        return min(float(max(keys, 0)), max(events, 0.0))
    return min(events, keys * -math.expm1(events * math.log1p(-1 / keys)))


def sizes_of(job: Job, state: RowSizes | None = None, written: RowSizes | None = None) -> Sizes:
    """Return the sizes of the job's records, by the types of its measures and the sampled texts and sketches."""
    state = state or RowSizes()
    output = 0.0 if job.output.mode == "none" else _output_bytes(job, state)
    in_state = sum(partial_bytes(one, state) for one in job.state_measures)
    return Sizes(row_bytes_of(job, state), row_bytes_of(job, written or state), output, in_state)


def row_bytes_of(job: Job, known: RowSizes | None = None) -> float:
    known = known or RowSizes()
    values = sum(partial_bytes(one, known) for one in job.measures)
    return RECORD_BYTES + HEADERS_BYTES + _key_bytes(known) + SINGLE_OBJECT_BYTES + values


def partial_bytes(measure: Measure, known: RowSizes) -> float:
    """Return the bytes of a measure's partials in a row; 0 of a derived value that readers compute."""
    kept = known.sketches.get(measure.name)
    if kept is not None:
        return kept + (SKETCH_FRAME_BYTES if measure.kind in _SKETCHES else 0)
    return sum(_bytes_of(partial.avro, measure, known) for partial in measure.partials)


def shown_bytes(measure: Measure, known: RowSizes) -> float:
    """Return the bytes of what users see of a measure, in Avro."""
    return _bytes_of(measure.output, replace(measure, kind=""), known)


def _key_bytes(known: RowSizes) -> float:
    return SINGLE_OBJECT_BYTES + 1 + known.key + WINDOW_BYTES


def _output_bytes(job: Job, known: RowSizes) -> float:
    presented = sum(shown_bytes(one, known) for one in job.measures)
    if job.output.format != JSON:
        return RECORD_BYTES + known.key + SINGLE_OBJECT_BYTES + 5 + known.key + WINDOW_BYTES + presented
    names = sum(len(one.name) + JSON_FIELD_BYTES for one in job.measures)
    return RECORD_BYTES + 2 * known.key + JSON_ROW_BYTES + names + presented


def _part_bytes(field: Mapping[str, Any], measure: Measure, known: RowSizes) -> float:
    """Return the bytes of a record's field, which is never null."""
    return REGION_BYTES if field["name"] == "origin" else _bytes_of(field["type"], measure, known) - 1


def _bytes_of(avro: Any, measure: Measure, known: RowSizes) -> float:
    if measure.kind == "distinct":
        return float(sketch_bounds(measure)[1]) + SKETCH_FRAME_BYTES
    if measure.kind == "quantile" and avro == "bytes":
        return float(KLL_BYTES)  # an upper bound: a sketch of few values has eight bytes for each
    if isinstance(avro, dict) and avro.get("type") == "record":
        return 1 + sum(_part_bytes(field, measure, known) for field in avro["fields"])
    if isinstance(avro, dict) and avro.get("type") == "array":
        # Of `top` an upper bound: a row of few values has a counter for each.
        items = kept_values(measure.length) if measure.kind == TOP else measure.length
        return 3 + items * _bytes_of(avro["items"], measure, known)
    logical = avro.get("logicalType") if isinstance(avro, dict) else None
    plain = str(avro.get("type") if isinstance(avro, dict) else avro)
    if plain in ("string", "bytes") and not logical:
        return known.texts.get(measure.field or "", float(TEXT_BYTES)) + 2
    sizes = {"boolean": 2, "int": 4, "long": 6, "float": 5, "double": 9}
    return 9 if logical else sizes.get(plain, TEXT_BYTES)
