"""What a run comes to, what was recorded of it, and the controller beside fixed settings. Plain values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import figures as harness
from benchmarks.harness.figures import Figure
from benchmarks.latency.delays import Floats, Ints

NS_PER_S = 1_000_000_000
CONTROLLER = "controller"
WITHIN = 1.1
"""What is asked of the controller, beside the best fixed setting."""
SLOT_S = 1.0
"""So that nothing missed can be compared."""


class RecordedEpoch(NamedTuple):
    planned_ns: int
    """When Spark chose its events, ns since 1970."""
    committed_ns: int
    events: int


@dataclass(frozen=True)
class CadenceRun:
    """One setting in one pair. `delays`: from the moment an event was due until it could be read, ms."""

    contender: str
    pair: int
    delays: Mapping[str, Mapping[str, float]]
    p99_ms: float
    """Until the view shows it."""
    missed_s: float
    """Seconds of arrival in which more than one event of a hundred could not be read within the objective."""
    epochs: int
    """Those with events, of the measured part."""
    cpu_s: float
    """Of driver and services in the measured part."""
    exact: bool
    fault: str | None = None


def missed_s(due_ns: Ints, delays_ms: Floats, objective_ms: int) -> float:
    """Seconds of arrival in which the objective was missed for more than one event of a hundred."""
    second = (due_ns - due_ns[0]) // NS_PER_S
    late = np.bincount(second, delays_ms > objective_ms)
    return SLOT_S * float(np.count_nonzero(late > 0.01 * np.bincount(second)))


Measure = tuple[str, Callable[[CadenceRun], float]]


def measures(objective_ms: int) -> list[Measure]:
    """What counts, the most important first; the less the better. What is better than the objective counts as
    much as the objective."""
    return [
        ("missed", lambda run: run.missed_s + SLOT_S),
        ("p99", lambda run: max(run.p99_ms, objective_ms)),
        ("cpu", lambda run: run.cpu_s),
    ]


def ratios(runs: Sequence[CadenceRun], objective_ms: int) -> dict[str, dict[str, float]]:
    """Each fixed setting's over the controller's, pair by pair: above 1 means that the controller is better."""
    peers = dict.fromkeys(run.contender for run in runs if run.contender != CONTROLLER)

    def figure(name: str, peer: str, of: Callable[[CadenceRun], float]) -> Figure[CadenceRun]:
        return Figure(name, peer, lambda run: 1 / of(run))

    figures = [figure(name, peer, of) for peer in peers for name, of in measures(objective_ms)]
    return harness.ratios(runs, CONTROLLER, figures)


def best_fixed(runs: Sequence[CadenceRun], objective_ms: int) -> str | None:
    """The fixed setting that misses least; of those about as good the one with the least p99, then CPU."""
    left = list(dict.fromkeys(run.contender for run in runs if run.contender != CONTROLLER))
    for _, of in measures(objective_ms):
        known = {name: median(of(run) for run in runs if run.contender == name) for name in left}
        left = [name for name in left if known[name] <= WITHIN * min(known.values())]
    return left[0] if left else None


def verdict(found: Mapping[str, Mapping[str, float]], best: str | None) -> list[str]:
    """A line about the controller beside the best fixed setting, if both ran."""
    names = [name for name in found if best is not None and name.endswith(f"/{best}")]
    if not names:
        return []
    behind = {name.partition("/")[0]: 1 / found[name]["median"] for name in names}
    kept = "kept" if max(behind.values()) <= WITHIN else "not kept"
    told = ", ".join(f"{name} {value:.2f}" for name, value in behind.items())
    return [f"the controller beside the best fixed setting, {best}: {told} (at most {WITHIN}: {kept})"]


def trace(epochs: Sequence[RecordedEpoch], due_ns: Ints, about: str) -> dict[str, Any]:
    """A run as a trace: the events of each second, and of each epoch its moment and what it has cost.

    One line through the times of all epochs parts them into a fixed cost and one of each event, by least squares
    of relative errors. In the trace both are stretched so that the line gives the epoch's own time.
    """
    first, last = int(due_ns[0]), int(due_ns[-1])
    inside = [one for one in epochs if first <= one.planned_ns <= last and one.events]
    events = np.array([one.events for one in inside], dtype=np.float64)
    seconds = np.array([(one.committed_ns - one.planned_ns) / NS_PER_S for one in inside])
    columns = np.stack([1 / seconds, events / seconds], axis=1)
    (fixed_s, event_s), *_ = np.linalg.lstsq(columns, np.ones(len(seconds)))
    stretched = seconds / (fixed_s + event_s * events)
    return {
        "about": about,
        "events_of_second": np.bincount((due_ns - first) // NS_PER_S).tolist(),
        "epochs": [
            {
                "at_s": round((one.planned_ns - first) / NS_PER_S, 2),
                "events": one.events,
                "fixed_s": round(float(fixed_s * stretch), 4),
                "event_us": round(float(event_s * stretch) * 1e6, 3),
            }
            for one, stretch in zip(inside, stretched, strict=True)
        ],
    }
