"""Traces of milestones: what happened to an epoch, from its start to readers, as steps of a trace.

Ids are hashes of what they name, so each process that tells about an epoch tells about the same trace. Times are
milliseconds since 1970, of the clocks of the processes that did the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from cutwater.core.protocol.records import Milestone

OPEN_MAX = 1_000
"""Milestones that wait for their last step; the oldest is told without it if there are more."""
PATIENCE_MS = 60_000
"""A milestone that waits for longer is told without the steps that it lacks."""
ROOT = "milestone"


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
    """The whole first. The others cover all of its time."""


def trace_id(milestone: Milestone) -> int:
    """Return the 128 bits of an epoch's trace, never 0."""
    return _number(f"{milestone.job}/{milestone.generation}/{milestone.epoch}/{milestone.attempt}", 16)


def trace_of(milestone: Milestone, published_ms: int | None, applied_ms: int | None) -> Trace:
    """Return a milestone's trace. `published_ms`, `applied_ms`: when output and view had it; None if not known."""
    number = trace_id(milestone)
    parts = [
        ("cutwater-driver", "epoch", milestone.epoch_started_ms, milestone.written_ms),
        ("cutwater-commit-signal", "commit", milestone.written_ms, milestone.committed_ms),
    ]
    if published_ms is not None:
        parts.append(("cutwater-publisher", "publish", milestone.committed_ms, published_ms))
    if applied_ms is not None:
        parts.append(("cutwater-rehydrator", "apply", milestone.committed_ms, applied_ms))
    root = _number(f"{number}/{ROOT}", 8)
    told: dict[str, str | int] = {
        "cutwater.job": milestone.job,
        "cutwater.milestone": str(milestone.token),
        "cutwater.epoch": milestone.epoch,
        "cutwater.events": milestone.events,
        "cutwater.rows": milestone.rows,
    }
    start_ms, end_ms = milestone.epoch_started_ms, max(end for *_, end in parts)
    steps = [Step("cutwater", ROOT, start_ms, max(start_ms, end_ms), root, None, told)]
    for service, name, begin, end in parts:
        # Clocks of two machines may differ by more than a step takes.
        steps.append(Step(service, name, begin, max(begin, end), _number(f"{number}/{name}", 8), root, {}))
    return Trace(number, tuple(steps))


def _number(text: str, size: int) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:size], "big") or 1


class _Open(NamedTuple):
    milestone: Milestone
    published_ms: int | None = None
    applied_ms: int | None = None


def _is_later(one: _Open, sequence: int) -> bool:
    return one.milestone.sequence > sequence


@dataclass(frozen=True)
class OpenTraces:
    """Milestones whose last step is not known yet. `publishes`, `serves`: the steps that there will be."""

    publishes: bool
    serves: bool
    open: tuple[_Open, ...] = ()
    """By their sequences."""
    finished: tuple[Trace, ...] = ()
    """Traces that `take_finished` has not returned yet."""

    def add(self, milestone: Milestone) -> OpenTraces:
        return replace(self, open=(*self.open, _Open(milestone)))._moved(milestone.committed_ms)

    def publish(self, sequence: int, at_ms: int) -> OpenTraces:
        """The output has all milestones up to this one since that time."""
        open_ = tuple(
            one if _is_later(one, sequence) or one.published_ms is not None else one._replace(published_ms=at_ms)
            for one in self.open
        )
        return replace(self, open=open_)._moved(at_ms)

    def apply(self, sequence: int, at_ms: int) -> OpenTraces:
        """The view shows a milestone, and so all before it, since that time."""
        open_ = tuple(
            one if _is_later(one, sequence) or one.applied_ms is not None else one._replace(applied_ms=at_ms)
            for one in self.open
        )
        return replace(self, open=open_)._moved(at_ms)

    def take_finished(self) -> tuple[OpenTraces, tuple[Trace, ...]]:
        return replace(self, finished=()), self.finished

    def _moved(self, now_ms: int) -> OpenTraces:
        done = {one.milestone.sequence for one in self._done(now_ms)}
        made = tuple(
            trace_of(one.milestone, one.published_ms, one.applied_ms)
            for one in self.open
            if one.milestone.sequence in done
        )
        left = tuple(one for one in self.open if one.milestone.sequence not in done)
        return replace(self, open=left, finished=(*self.finished, *made))

    def _done(self, now_ms: int) -> Iterator[_Open]:
        for place, one in enumerate(self.open):
            whole = (one.published_ms is not None or not self.publishes) and (
                one.applied_ms is not None or not self.serves
            )
            late = now_ms - one.milestone.committed_ms > PATIENCE_MS or len(self.open) - place > OPEN_MAX
            if whole or late:
                yield one
