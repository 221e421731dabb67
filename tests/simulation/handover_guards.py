"""The guards of an output that goes from one generation to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cutwater.commit_signal import promotion
from cutwater.core.output import position
from cutwater.core.output.position import NEVER_MS, Published
from cutwater.publisher import transaction
from cutwater.publisher.handover.handover import HandoverRunner
from cutwater.publisher.handover.state_diff import DifferenceSource
from simulation.checker import (
    ABORTED_READ,
    FALSE_ALARM,
    INVERSION,
    LOST_WRITE,
    PARTIAL,
    REPEATED_FINAL,
    SAID_AGAIN,
)
from simulation.guards import Guard
from simulation.histories import Climate
from simulation.holes import off, own_ids, two_transactions

_source = DifferenceSource.__init__
_after = position.after


def from_the_first_row(self: DifferenceSource, *args: Any, begun: int = 0, **named: Any) -> None:
    """Whatever is published of the difference already."""
    _source(self, *args, **named)


def of_this_milestone(at: Published, plan: Any, part: Any) -> Published:
    """What was closed before a rollback is forgotten."""
    moved = _after(at, plan, part)
    return replace(moved, closed_ms=plan.to.milestone.watermark_ms) if part.last else moved


def whatever_it_has_read(candidate: Any, _claim: Any, _last: Any) -> str | None:
    return None if candidate else "it has no milestone yet"


def nothing_published(*_args: Any) -> None:
    """The published state is not looked for."""


_WRONG = frozenset({LOST_WRITE, ABORTED_READ, PARTIAL, SAID_AGAIN})


def _of(*, weights: Mapping[str, float] | None = None, **profile: Any) -> Climate:
    calm = dict.fromkeys(("abort", "prune", "lose-store", "leap", "roll-back", "late-row"), 0.0)
    return Climate({"generations": True, **profile}, {**calm, **(weights or {})})


HANDOVER_GUARDS = (
    Guard(
        "a candidate has caught up",
        "an output that goes back with a promotion",
        "I3",
        off(promotion, "promotion_delay", whatever_it_has_read),
        _of(weights={"promote": 10.0, "events": 12.0}),
        frozenset({INVERSION}),
    ),
    Guard(
        "a difference to the published state",
        "rows that vanish with a rollback, and those that are as they were",
        "I4",
        off(HandoverRunner, "_old", nothing_published),
        _of(),
        _WRONG,
    ),
    Guard(
        "a difference goes on where it ended",
        "rows of a difference that a killed publisher had written, once more",
        "I4",
        off(DifferenceSource, "__init__", from_the_first_row),
        _of(final=True, part_rows=2, weights={"kill:publisher": 8.0, "age": 3.0}),
        frozenset({REPEATED_FINAL, PARTIAL, *_WRONG}),
    ),
    Guard(
        "the position moves with the difference",
        "a difference that is published again",
        "I4",
        two_transactions,
        _of(weights={"kill:publisher": 8.0}),
        frozenset({INVERSION, FALSE_ALARM}),
    ),
    Guard(
        "fencing at a hand-over",
        "two publishers that go to the next generation",
        "I4",
        own_ids("publisher_id"),
        _of(weights={"stall:publisher": 4.0, "wake:publisher": 10.0}),
        frozenset({INVERSION, FALSE_ALARM, PARTIAL}),
    ),
    Guard(
        "a closed window is corrected",
        "finals of windows that were final before a rollback",
        "I4",
        off(HandoverRunner, "_published_up_to_ms", lambda *_args: NEVER_MS),
        _of(final=True, weights={"age": 3.0, "claim": 5.0}),
        frozenset({REPEATED_FINAL}),
    ),
    Guard(
        "what was closed stays known",
        "finals of windows that a rollback opens, and that close again",
        "I4",
        off(transaction, "after", of_this_milestone),
        _of(final=True, weights={"age": 3.0, "claim": 5.0}),
        frozenset({REPEATED_FINAL}),
    ),
    Guard(
        "whole windows in a difference",
        "windows of which the seed has not all panes",
        "I1",
        off(HandoverRunner, "_whole_above_ms", lambda *_args: NEVER_MS),
        _of(sliding=True, weights={"age": 5.0}),
        frozenset({ABORTED_READ}),
    ),
)
