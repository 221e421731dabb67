"""What B7 measured: figures of a contender beside so many rows, their ratios, the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.harness.figures import spread, table

FLOOR, WALK, STREAMS = "cutwater", "cutwater-walk", "kafka-streams"
"""Windows that close by a floor, and by Spark's watermark: that one walks over the state in each epoch. A peer."""
LEAST_ROWS, STEP = 100_000, 10
SMALL, LARGE = 1_000, 100_000
"""Events of a batch."""


@dataclass(frozen=True)
class Batches:
    """Batches of one size beside so many open rows."""

    contender: str
    pair: int
    rows: int
    batch: int
    """Events of each."""
    epochs_ms: tuple[float, ...]
    """From `offsets/N` to `commits/N` of the epoch that ended each batch; none where there are no epochs."""
    durable_ms: tuple[float, ...]
    """From the moment at which each batch could be read until its results are durable."""
    cpu_s: float
    """Of the process tree, a batch."""
    disk_mb: float
    """Of state and checkpoint, each file once."""
    fault: str | None = None
    """What was not exact."""

    @property
    def exact(self) -> bool:
        return self.fault is None

    @property
    def p50_ms(self) -> float:
        """Of an epoch; of a batch where there are no epochs."""
        return median(self.epochs_ms or self.durable_ms)


def p99(values: Sequence[float]) -> float:
    return float(np.percentile(values, 99))


def row_counts(most: int) -> list[int]:
    """Powers of ten from the least on, up to the given number."""
    found = [LEAST_ROWS]
    while found[-1] * STEP <= most:
        found.append(found[-1] * STEP)
    return found


def ratios(runs: Sequence[Batches]) -> dict[str, dict[str, float]]:
    """The time beside the least rows by that beside more: 1 is perfect. And the walk's and the peer's by ours."""
    found = defaultdict[str, list[float]](list)
    for label, quotient in _quotients(runs):
        found[label].append(quotient)
    return {label: spread(all_) for label, all_ in found.items()}


def _quotients(runs: Sequence[Batches]) -> Iterator[tuple[str, float]]:
    by_place = {(one.contender, one.pair, one.rows, one.batch): one for one in runs}
    for one in runs:
        if one.contender != FLOOR:
            continue

        def beside(contender: str, rows: int, of: Batches = one) -> Batches | None:
            return by_place.get((contender, of.pair, rows, of.batch))

        size = "" if one.batch == SMALL else "large-"
        here, least = f"{size}epoch-{short(one.rows)}-rows", beside(FLOOR, LEAST_ROWS)
        if one.rows > LEAST_ROWS and least:
            yield f"{size}epoch-{short(LEAST_ROWS)}-rows/{here.removeprefix(size)}", least.p50_ms / one.p50_ms
        if walk := beside(WALK, one.rows):
            yield f"{here}/walk", walk.p50_ms / one.p50_ms
        if peer := beside(STREAMS, one.rows):
            batch = f"{size}batch-{short(one.rows)}-rows"
            yield f"{batch}/{STREAMS}", median(peer.durable_ms) / median(one.durable_ms)
            yield f"{batch}-p99/{STREAMS}", p99(peer.durable_ms) / p99(one.durable_ms)
            yield f"{batch}-cpu/{STREAMS}", peer.cpu_s / one.cpu_s
            yield f"{batch}-disk/{STREAMS}", peer.disk_mb / one.disk_mb


def short(rows: int) -> str:
    return f"{rows // 1_000_000}m" if rows >= 1_000_000 else f"{rows // 1_000}k"


_COLUMNS: tuple[tuple[str, Callable[[Batches], str]], ...] = (
    ("rows", lambda one: f"{one.rows:,}"),
    ("events a batch", lambda one: f"{one.batch:,}"),
    ("epoch p50 ms", lambda one: f"{median(one.epochs_ms):,.0f}" if one.epochs_ms else "-"),
    ("epoch p99 ms", lambda one: f"{p99(one.epochs_ms):,.0f}" if one.epochs_ms else "-"),
    ("durable p50 ms", lambda one: f"{median(one.durable_ms):,.0f}"),
    ("durable p99 ms", lambda one: f"{p99(one.durable_ms):,.0f}"),
    ("CPU-s a batch", lambda one: f"{one.cpu_s:.2f}"),
    ("disk MB", lambda one: f"{one.disk_mb:,.0f}"),
)


def markdown(title: str, runs: Sequence[Batches]) -> str:
    """A line for each run, and what was wrong."""
    head = ["contender", *(name for name, _ in _COLUMNS)]
    lines = table(head, [[f"`{one.contender}`", *(tell(one) for _, tell in _COLUMNS)] for one in runs])
    faults = [f"- {one.contender}, pair {one.pair}, {one.rows:,} rows: {one.fault}" for one in runs if one.fault]
    return "\n".join([f"# {title}", "", *lines, "", *faults]) + "\n"


def line(one: Batches) -> str:
    told = ", ".join(f"{name} {tell(one)}" for name, tell in _COLUMNS)
    return f"pair {one.pair} {one.contender:13} {told}, {'exact' if one.exact else one.fault}"
