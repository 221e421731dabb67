"""Milestones whose trace is not complete yet, as a fold: a trace is sent once its last step is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from cutwater.core.protocol.records import Committed, Milestone
from cutwater.core.tracing.trace_steps import Trace, milestone_trace

OPEN_MAX = 1_000
"""Milestones that wait for their last step; the oldest is told without it if there are more."""
HINTS_MAX = 100
"""Hints that are read before their milestone."""
PATIENCE_MS = 60_000
"""A milestone that waits for longer is told without the steps that it lacks."""


class _Open(NamedTuple):
    milestone: Milestone
    hint_ms: int | None = None
    published_ms: int | None = None
    applied_ms: int | None = None


def _is_later(one: _Open, sequence: int) -> bool:
    return one.milestone.sequence > sequence


def _names(hint: Committed, milestone: Milestone) -> bool:
    return (hint.epoch, hint.attempt) == (milestone.epoch, milestone.attempt)


@dataclass(frozen=True)
class OpenTraces:
    """Milestones whose last step is not known yet. `publishes`, `serves`: the steps that there will be."""

    publishes: bool
    serves: bool
    open: tuple[_Open, ...] = ()
    """By their sequences."""
    hints: tuple[Committed, ...] = ()
    """The newest ones, of milestones that are not read yet."""
    finished: tuple[Trace, ...] = ()
    """Traces that `take_finished` has not returned yet."""

    def add(self, milestone: Milestone) -> OpenTraces:
        known = [one.at_ms for one in self.hints if _names(one, milestone)]
        hints = tuple(one for one in self.hints if one.epoch > milestone.epoch)
        one = _Open(milestone, known[0] if known else None)
        return replace(self, open=(*self.open, one), hints=hints)._moved(milestone.committed_ms)

    def hint(self, hint: Committed) -> OpenTraces:
        """The driver has seen an epoch in Spark's commit log."""
        if not any(_names(hint, one.milestone) for one in self.open):
            return replace(self, hints=(*self.hints, hint)[-HINTS_MAX:])
        open_ = (
            one._replace(hint_ms=hint.at_ms) if _names(hint, one.milestone) and one.hint_ms is None else one
            for one in self.open
        )
        return replace(self, open=tuple(open_))

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
            milestone_trace(one.milestone, one.hint_ms, one.published_ms, one.applied_ms)
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
