"""Where the time of an event goes, step by step, from the moments that an epoch leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from benchmarks.latency.delays import Floats, Ints, summary

NS_PER_MS = 1_000_000


class Moments(NamedTuple):
    """One epoch's, ns since 1970, in the order in which they happen.

    `planned` and `committed` are the files of Spark's checkpoint; `began`, `proved` and `milestone` are the
    milestone's own; `rows` is the broker's clock on the changelog; `hint` stands in the driver's hint; `published`
    in the publisher's end marker. `readable` and `visible` were seen from outside.
    """

    planned: int
    """Spark has decided what the epoch reads."""
    began: int
    """`foreachBatch` was called."""
    rows: int
    """The last row stood on the changelog."""
    proved: int
    """All rows are acknowledged, counted and proved; the barrier comes next."""
    committed: int
    """Spark's commit log holds the epoch."""
    hint: int
    """The driver has noticed."""
    milestone: int
    """commit-signal writes the milestone."""
    published: int
    """The publisher writes the milestone's rows to the output."""
    readable: int
    """`committed()` yields it."""
    visible: int
    """The view shows it."""


STEPS: dict[str, tuple[str, str]] = {
    "planning, call": ("planned", "began"),
    "rows": ("began", "rows"),
    "state, proof": ("rows", "proved"),
    "barrier, commit": ("proved", "committed"),
    "hint": ("committed", "hint"),
    "milestone": ("hint", "milestone"),
    "publisher": ("milestone", "published"),
    "transaction, committed()": ("published", "readable"),
}
"""Step -> the moments between which it lies. `WAIT`, before the first, differs from event to event."""

WAIT = "wait for an epoch"
PREPARED_COMMITTED, COMMITTED_READABLE = "prepared to committed", "committed to readable"
COMMITTED_VISIBLE = "committed to visible"
"""The commit protocol's own two legs: barrier ready to milestone, milestone to readers."""


def per_event(epochs: Mapping[int, Moments], epoch_of: Ints, due_ns: Ints) -> dict[str, Floats]:
    """Each step's ms for each event; `epoch_of` is the epoch that read it."""
    names = {name: place for place, name in enumerate(Moments._fields)}
    table = np.array([epochs[number] for number in epoch_of.tolist()], dtype=np.int64)

    def between(first: str, last: str) -> Floats:
        return (table[:, names[last]] - table[:, names[first]]) / NS_PER_MS

    found = {WAIT: (table[:, names["planned"]] - due_ns) / NS_PER_MS}
    found |= {name: between(first, last) for name, (first, last) in STEPS.items()}
    found[PREPARED_COMMITTED] = between("proved", "milestone")
    found[COMMITTED_READABLE] = between("milestone", "readable")
    found[COMMITTED_VISIBLE] = between("milestone", "visible")
    return found


def step_statistics(steps: Mapping[str, Floats]) -> dict[str, dict[str, float]]:
    """Mean and percentiles of each step, ms: the means add up, percentiles do not."""
    return {name: {"mean": round(float(one.mean()), 2)} | summary(one) for name, one in steps.items()}


def epoch_ms(epochs: Mapping[int, Moments], used: Ints) -> float | None:
    """The median time from one epoch's beginning to the next one's, over those used; None for a single one."""
    first, last = int(used.min()), int(used.max())
    planned = [epochs[number].planned for number in range(first, last + 1) if number in epochs]
    return float(np.median(np.diff(planned))) / NS_PER_MS if len(planned) > 1 else None
