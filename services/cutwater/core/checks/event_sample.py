"""Estimates from a sample of a job's events: rows, keys and bytes per row, counted as the job would count.

The sample is the newest events of each partition of the source. A window counts if the sample surely holds all of
its events: it starts after the oldest and ends before the newest sampled events of every partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cutwater.core.checks.sketch_sizes import SKETCH_SET_MAX, sketch_bytes
from cutwater.core.job.job import Job
from cutwater.core.job.measures import THETA, THETA_VALUES, Measure

EDGE_SHARE = 0.01
"""The share of a partition's events that may be older than the start of its sample, since events are unordered."""


class SampledEvent(NamedTuple):
    partition: int
    time_ms: int
    key: str
    size: int
    """Bytes of key, value and headers."""
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class RowSizes:
    """Sizes in bytes that the types of a job's measures leave open."""

    key: float = 16.0
    texts: Mapping[str, float] = field(default_factory=dict)
    """The mean length of a text, by field of the events."""
    sketches: Mapping[str, float] = field(default_factory=dict)
    """The mean size of what is kept of it, by measure whose size depends on the number of its values."""


@dataclass(frozen=True)
class SampleFigures:
    events: int
    span_ms: int
    """Event time from the oldest to the newest event, without outliers."""
    event_bytes: float
    events_per_s: float
    """In event time: the rate of a job that keeps up."""
    keys: int
    whole_windows: int
    rows_per_window: float | None
    """Mean keys of the whole windows; None if the sample holds no whole window."""
    rows_per_epoch: float | None
    """Rows that one epoch writes; None if the sample is smaller than one epoch."""
    state: RowSizes
    """Of a row with all events of its window."""
    written: RowSizes
    """Of a row as an epoch writes it, with smaller sketches."""


class _Row:
    """One (key, window): the different values of each `distinct`."""

    def __init__(self, counted: int) -> None:
        self.values: list[set[Any]] = [set() for _ in range(counted)]


def measure_sample(
    job: Job, events: Sequence[SampledEvent], epoch_s: float, per_second: float | None
) -> SampleFigures | None:
    """Return the figures of a sample, folded in epochs of `epoch_s`; None if there is no event.

    `per_second`: the rate that the user expects; None for the sample's own.
    """
    if not events:
        return None
    low, high = _edges(events)
    inside = max(sum(low <= one.time_ms <= high for one in events), 1)
    rate = inside / max((high - low) / 1_000, 1.0)
    per_epoch = min((per_second or rate) * epoch_s, float(job.max_events_per_epoch))
    measures = [one for one in job.counted_measures if one.kind == "distinct" and one.field]
    rows, written, epochs = _fold(job, events, measures, max(round(per_epoch), 1))
    size, slide = job.row_windows.size_ms, job.row_windows.slide_ms
    whole = range(low + -low % slide, high - size + 1, slide)  # of sparse events there may be billions
    in_whole = {(key, start) for key, start in rows if low <= start and start + size <= high}
    final = [rows[at] for at in in_whole] or list(rows.values())
    texts = _texts(job, events)
    key_bytes = sum(len(one.key.encode()) for one in events) / len(events)
    return SampleFigures(
        events=len(events),
        span_ms=high - low,
        event_bytes=sum(one.size for one in events) / len(events),
        events_per_s=rate,
        keys=len({one.key for one in events}),
        whole_windows=len(whole),
        rows_per_window=len(in_whole) / len(whole) if whole else None,
        rows_per_epoch=written.rows / epochs if epochs else None,
        state=RowSizes(key_bytes, texts, _means(measures, final)),
        written=RowSizes(key_bytes, texts, written.sketches()),
    )


class _Written:
    def __init__(self, measures: Sequence[Measure]) -> None:
        self.rows = 0
        self._measures = measures
        self._bytes = [0] * len(measures)

    def add(self, row: _Row) -> None:
        self.rows += 1
        for number, (values, measure) in enumerate(zip(row.values, self._measures, strict=True)):
            self._bytes[number] += sketch_bytes(len(values), measure.sketch)

    def sketches(self) -> dict[str, float]:
        return {one.name: size / max(self.rows, 1) for one, size in zip(self._measures, self._bytes, strict=True)}


def _fold(
    job: Job, events: Sequence[SampledEvent], measures: Sequence[Measure], per_epoch: int
) -> tuple[dict[tuple[str, int], _Row], _Written, int]:
    """Return (rows of the sample, rows that epochs of `per_epoch` events write, number of whole epochs).

    An epoch reads all partitions at the same relative speed.
    """
    rows: dict[tuple[str, int], _Row] = {}
    written, epochs = _Written(measures), 0
    most = [THETA_VALUES if one.sketch == THETA else SKETCH_SET_MAX + 1 for one in measures]
    touched: dict[tuple[str, int], _Row] = {}
    for number, event in enumerate(_side_by_side(events), 1):
        for start in job.row_windows.starts(event.time_ms):
            row = rows.setdefault((event.key, start), _Row(len(measures)))
            for values, measure, room in zip(row.values, measures, most, strict=True):
                value = event.fields.get(measure.field or "")
                if value is not None and len(values) < room:
                    values.add(value)
            touched[event.key, start] = row
        if number % per_epoch == 0:
            epochs += 1
            for row in touched.values():
                written.add(row)
            touched = {}
    return rows, written, epochs


def _side_by_side(events: Sequence[SampledEvent]) -> list[SampledEvent]:
    """Return the partitions' events interleaved: each in its own order, all ending together."""
    parts: dict[int, list[SampledEvent]] = {}
    for one in events:
        parts.setdefault(one.partition, []).append(one)
    placed = [(number / len(part), one) for part in parts.values() for number, one in enumerate(part)]
    return [one for _, one in sorted(placed, key=lambda found: found[0])]


def _edges(events: Sequence[SampledEvent]) -> tuple[int, int]:
    """Return the event times between which the sample holds all events of every partition."""
    times: dict[int, list[int]] = {}
    for one in events:
        times.setdefault(one.partition, []).append(one.time_ms)
    ordered = [sorted(found) for found in times.values()]
    low = max(found[int(len(found) * EDGE_SHARE)] for found in ordered)
    high = min(found[-1 - int(len(found) * EDGE_SHARE)] for found in ordered)
    return low, max(low, high)


def _texts(job: Job, events: Sequence[SampledEvent]) -> dict[str, float]:
    found = {}
    for name in {one.field for one in job.counted_measures if one.field}:
        lengths = list(_lengths(one.fields.get(name) for one in events))
        if lengths:
            found[name] = sum(lengths) / len(lengths)
    return found


def _lengths(values: Iterable[Any]) -> Iterable[int]:
    for one in values:
        if isinstance(one, str):
            yield len(one.encode("utf-8", "replace"))
        elif isinstance(one, bytes):
            yield len(one)


def _means(measures: Sequence[Measure], rows: Sequence[_Row]) -> dict[str, float]:
    return {
        measure.name: sum(sketch_bytes(len(row.values[number]), measure.sketch) for row in rows)
        / max(len(rows), 1)
        for number, measure in enumerate(measures)
    }
