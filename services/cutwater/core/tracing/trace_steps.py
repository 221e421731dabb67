"""Traces of milestones: what happened to an epoch, from its plan to readers and other regions, as steps.

Ids are hashes of what they name. So each process sends the steps that it knows by itself, and they meet in one
trace. Times are milliseconds since 1970, of the clocks of the processes that did the step. The steps of a chain
follow each other without a gap, so the steps of a trace cover all of its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

from cutwater.core.protocol.records import Milestone, WrittenEpoch
from cutwater.core.tracing.query_progress import QueryProgress

ROOT, EPOCH, PLAN = "milestone", "epoch", "plan"
DRIVER, SIGNAL, PUBLISHER = "cutwater-driver", "cutwater-commit-signal", "cutwater-publisher"
VIEW, MIRROR = "cutwater-rehydrator", "cutwater-mirror"


class Step(NamedTuple):
    service: str
    name: str
    start_ms: int
    end_ms: int
    span_id: int
    parent_id: int | None
    attributes: dict[str, str | int]


class Trace(NamedTuple):
    trace_id: int
    steps: tuple[Step, ...]
    """All of them, or those of one process."""


class EpochMoments(NamedTuple):
    """When the driver reached the parts of an epoch that no record tells."""

    cleared_ms: int
    """Closed windows were cleared; Spark begins to compute the rows."""
    rows_ms: int
    """All rows were acknowledged by the brokers."""
    proved_ms: int
    barrier_ms: int
    """The barrier was on its topic."""


def trace_id(epoch: WrittenEpoch) -> int:
    """Return the 128 bits of an epoch's trace, never 0."""
    return _number(f"{epoch.job}/{epoch.generation}/{epoch.epoch}/{epoch.attempt}", 16)


def milestone_trace(
    milestone: Milestone, hint_ms: int | None, published_ms: int | None, applied_ms: int | None
) -> Trace:
    """Return what the topics tell: the whole, then its steps.

    `hint_ms`: when the driver saw the epoch in Spark's commit log. `published_ms`, `applied_ms`: when output and
    view had the milestone. None if it is not known.
    """
    number = trace_id(milestone)
    started, written, committed = milestone.epoch_started_ms, milestone.written_ms, milestone.committed_ms
    steps = list(_chain(number, DRIVER, ROOT, started, [(EPOCH, written)]))
    if hint_ms is not None:
        # Clocks of two machines may differ by more than a step takes.
        seen = min(hint_ms, max(written, committed))
        steps += _chain(number, DRIVER, ROOT, steps[-1].end_ms, [("checkpoint", seen)])
    steps += _chain(number, SIGNAL, ROOT, steps[-1].end_ms, [("commit", committed)])
    committed = steps[-1].end_ms
    if published_ms is not None:
        steps += _chain(number, PUBLISHER, ROOT, committed, [("publish", published_ms)])
    if applied_ms is not None:
        steps += _chain(number, VIEW, ROOT, committed, [("apply", applied_ms)])
    told: dict[str, str | int] = {
        "cutwater.job": milestone.job,
        "cutwater.milestone": str(milestone.token),
        "cutwater.epoch": milestone.epoch,
        "cutwater.events": milestone.events,
        "cutwater.rows": milestone.rows,
    }
    end_ms = max(step.end_ms for step in steps)
    whole = Step("cutwater", ROOT, started, end_ms, _span(number, ROOT), None, told)
    return Trace(number, (whole, *steps))


def driver_trace(epoch: WrittenEpoch, at: EpochMoments) -> Trace:
    """Return the steps of an epoch inside the driver, and the write of its barrier."""
    number = trace_id(epoch)
    inside = [("clear", at.cleared_ms), ("rows", at.rows_ms), ("prove", at.proved_ms), ("list", epoch.written_ms)]
    steps = list(_chain(number, DRIVER, EPOCH, epoch.epoch_started_ms, inside))
    steps += _chain(number, DRIVER, ROOT, epoch.written_ms, [("barrier", at.barrier_ms)])
    return Trace(number, tuple(steps))


def spark_trace(epoch: WrittenEpoch, progress: QueryProgress) -> Trace:
    """Return what Spark does before and after an epoch's batch: the plan lies before the root."""
    number, began = trace_id(epoch), min(progress.started_ms, epoch.epoch_started_ms)
    steps = list(_chain(number, DRIVER, ROOT, began, [(PLAN, epoch.epoch_started_ms)]))
    at = began
    inside = []
    for name, phases in _PLANNING.items():
        at = min(at + sum(progress.phases_ms.get(phase, 0) for phase in phases), epoch.epoch_started_ms)
        inside.append((name, at))
    steps += _chain(number, DRIVER, PLAN, began, [*inside, ("start", epoch.epoch_started_ms)])
    ended = max(epoch.written_ms, progress.started_ms + progress.phases_ms.get("triggerExecution", 0))
    begun = max(epoch.written_ms, ended - progress.phases_ms.get("commitOffsets", 0))
    return Trace(number, (*steps, *_chain(number, DRIVER, ROOT, begun, [("commit-log", ended)])))


_PLANNING = {
    "offsets": ("latestOffset",),
    "write-ahead": ("walCommit",),
    "planning": ("getBatch", "queryPlanning"),
}
"""Step -> the phases of Spark's progress that it consists of, in Spark's order."""


def arrival_trace(milestone: Milestone, region: str, copied_ms: int, arrived_ms: int) -> Trace:
    """Return the steps in another region: the milestone is copied, and then complete. `region`: that region."""
    number = trace_id(milestone)
    parts = [("copy", copied_ms), ("arrive", arrived_ms)]
    about: dict[str, str | int] = {"cutwater.region": region}
    return Trace(number, tuple(_chain(number, MIRROR, ROOT, milestone.committed_ms, parts, about)))


def _chain(
    number: int,
    service: str,
    parent: str,
    start_ms: int,
    parts: Iterable[tuple[str, int]],
    about: dict[str, str | int] | None = None,
) -> Iterator[Step]:
    """Yield steps that follow each other, each with its end. One that ends before it begins takes no time."""
    for name, at_ms in parts:
        end_ms = max(start_ms, at_ms)
        own = "/".join([name, *map(str, (about or {}).values())])
        yield Step(service, name, start_ms, end_ms, _span(number, own), _span(number, parent), about or {})
        start_ms = end_ms


def _span(number: int, name: str) -> int:
    return _number(f"{number}/{name}", 8)


def _number(text: str, size: int) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:size], "big") or 1
