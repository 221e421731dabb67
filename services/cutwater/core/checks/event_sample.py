"""What a sample of a job's events says of its state: rows, keys, and bytes per row, by counting as the job would.

The sample is the newest events of each partition of the source. A window counts where the sample surely holds all
of its events: where it begins behind the oldest ones of every partition and ends before the newest ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cutwater.core.job.job import Job
from cutwater.core.job.measures import Measure

EDGE_SHARE = 0.01
"""Events come out of order: so many of a partition's events may be older than where its sample begins."""
SKETCH_LIST_MAX, SKETCH_SET_MAX = 7, 384
"""Up to so many values a sketch of 4,096 registers is a list, then a set of hashes, then all registers."""
SKETCH_LIST_BYTES, SKETCH_FULL_BYTES = 40, 4_136
_SET_HEAD_BYTES, _SET_SLOTS_MIN, _SET_FILL = 12, 32, 0.75


class SampledEvent(NamedTuple):
    """One event that could be read."""

    partition: int
    time_ms: int
    """Its event time."""
    key: str
    size: int
    """Bytes of key, value and headers."""
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class RowSizes:
    """What the types of a job's measures leave open, in bytes."""

    key: float = 16.0
    texts: Mapping[str, float] = field(default_factory=dict)
    """By field of the events: a text's mean length."""
    sketches: Mapping[str, float] = field(default_factory=dict)
    """By measure: the mean sketch of `distinct`."""


@dataclass(frozen=True)
class SampleFigures:
    """What was counted."""

    events: int
    span_ms: int
    """Event time from the oldest to the newest, without those far from all others."""
    event_bytes: float
    events_per_s: float
    """In event time: what a job reads that keeps up."""
    keys: int
    whole_windows: int
    rows_per_window: float | None
    """Keys of one window, over the whole ones; None where the sample holds no whole window."""
    rows_per_epoch: float | None
    """Rows that one epoch writes; None where the sample is smaller than one epoch."""
    state: RowSizes
    """Of a row as it stays: with all events of its window."""
    written: RowSizes
    """Of a row as it is written, epoch by epoch: sketches are younger there."""


class _Row:
    """One (key, window) while events are folded into it: the different values of each `distinct`."""

    def __init__(self, counted: int) -> None:
        self.values: list[set[Any]] = [set() for _ in range(counted)]


def sketch_bytes(distinct: int) -> int:
    """A sketch of so many different values, as Spark writes it."""
    if distinct <= SKETCH_LIST_MAX:
        return SKETCH_LIST_BYTES
    if distinct > SKETCH_SET_MAX:
        return SKETCH_FULL_BYTES
    slots = _SET_SLOTS_MIN
    while distinct > slots * _SET_FILL:
        slots *= 2
    return _SET_HEAD_BYTES + 4 * slots


def count(
    job: Job, events: Sequence[SampledEvent], epoch_s: float, per_second: float | None
) -> SampleFigures | None:
    """Fold the sample as the job would, in epochs of `epoch_s`.

    `per_second`: how many events will come, where somebody says so; else as many as the sample shows.
    None where there is no event.
    """
    if not events:
        return None
    low, high = _edges(events)
    inside = max(sum(low <= one.time_ms <= high for one in events), 1)
    rate = inside / max((high - low) / 1_000, 1.0)
    per_epoch = min((per_second or rate) * epoch_s, float(job.max_events_per_epoch))
    measures = [one for one in job.measures if one.kind == "distinct" and one.field]
    rows, written, epochs = _fold(job, events, measures, max(round(per_epoch), 1))
    size, slide = job.window.size_ms, job.window.slide_ms
    whole = [start for start in range(low + -low % slide, high - size + 1, slide)]
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
        written=RowSizes(key_bytes, texts, written.sketches(measures)),
    )


class _Written:
    """The rows of all epochs, and the bytes of their sketches."""

    def __init__(self, counted: int) -> None:
        self.rows = 0
        self.bytes = [0] * counted

    def add(self, row: _Row) -> None:
        self.rows += 1
        for number, values in enumerate(row.values):
            self.bytes[number] += sketch_bytes(len(values))

    def sketches(self, measures: Sequence[Measure]) -> dict[str, float]:
        return {one.name: size / max(self.rows, 1) for one, size in zip(measures, self.bytes, strict=True)}


def _fold(
    job: Job, events: Sequence[SampledEvent], measures: Sequence[Measure], per_epoch: int
) -> tuple[dict[tuple[str, int], _Row], _Written, int]:
    """Every row of the sample; what epochs of so many events write of them, and how many whole epochs there are.

    An epoch takes its events from all partitions alike, so they are gone through side by side.
    """
    rows: dict[tuple[str, int], _Row] = {}
    written, epochs = _Written(len(measures)), 0
    touched: dict[tuple[str, int], _Row] = {}
    for number, event in enumerate(_side_by_side(events), 1):
        for start in job.window.starts(event.time_ms):
            row = rows.setdefault((event.key, start), _Row(len(measures)))
            for values, measure in zip(row.values, measures, strict=True):
                value = event.fields.get(measure.field or "")
                if value is not None and len(values) <= SKETCH_SET_MAX:
                    values.add(value)
            touched[event.key, start] = row
        if number % per_epoch == 0:
            epochs += 1
            for row in touched.values():
                written.add(row)
            touched = {}
    return rows, written, epochs


def _side_by_side(events: Sequence[SampledEvent]) -> list[SampledEvent]:
    """The partitions' events in one order, each partition in its own, all ending together."""
    parts: dict[int, list[SampledEvent]] = {}
    for one in events:
        parts.setdefault(one.partition, []).append(one)
    placed = [(number / len(part), one) for part in parts.values() for number, one in enumerate(part)]
    return [one for _, one in sorted(placed, key=lambda found: found[0])]


def _edges(events: Sequence[SampledEvent]) -> tuple[int, int]:
    """The event times between which the sample holds all events, of every partition."""
    times: dict[int, list[int]] = {}
    for one in events:
        times.setdefault(one.partition, []).append(one.time_ms)
    ordered = [sorted(found) for found in times.values()]
    low = max(found[int(len(found) * EDGE_SHARE)] for found in ordered)
    high = min(found[-1 - int(len(found) * EDGE_SHARE)] for found in ordered)
    return low, max(low, high)


def _texts(job: Job, events: Sequence[SampledEvent]) -> dict[str, float]:
    """The mean length of each field that a measure keeps as a text."""
    found = {}
    for name in {one.field for one in job.measures if one.field}:
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
        measure.name: sum(sketch_bytes(len(row.values[number])) for row in rows) / max(len(rows), 1)
        for number, measure in enumerate(measures)
    }
