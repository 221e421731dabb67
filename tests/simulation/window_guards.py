"""The guards of windows that are merged from panes, and of those that are published once, when they close."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Jump, Step
from cutwater.publisher.sources import changed_rows
from cutwater.publisher.sources.changed_rows import ChangedWindows, Finals
from cutwater.views.changelog.row_batch import Piece
from cutwater.views.follow.applier import Applier
from cutwater.views.query.view import View
from cutwater.views.store.store import Store
from simulation.checker import ABORTED_READ, LOST_WRITE, PARTIAL
from simulation.guards import Guard
from simulation.histories import Climate
from simulation.holes import off

_windows = ChangedWindows._windows
_WRONG = frozenset({LOST_WRITE, ABORTED_READ, PARTIAL})


def left_at_its_milestone(store: Store, applier: Applier, plan: Step | Jump) -> None:
    if store.applied is None:
        applier.apply(Jump(plan.to))


def step_by_step(store: Store, applier: Applier, plan: Step | Jump) -> None:
    """As if no folder were ever lost."""
    applied = store.applied
    if applied is None or store.applying or applied.milestone.sequence < plan.to.milestone.sequence:
        applier.apply(plan)


def progress_at_once(self: ChangedWindows, chunk: Piece) -> Iterator[Piece]:
    for piece in _windows(self, chunk):
        yield replace(piece, offsets=[chunk.offsets[-1]] * len(piece))


def horizon_of_rows(_self: Any, milestone: Milestone) -> int:
    return milestone.horizon_ms


WINDOW_GUARDS = (
    Guard(
        "panes of the milestone",
        "an output's windows merged from the panes of another milestone",
        "I1",
        off(changed_rows, "bring_store_to", left_at_its_milestone),
        Climate({"sliding": True}),
        _WRONG,
    ),
    Guard(
        "every pane of a lost store",
        "an output's windows merged from what changed since the store was lost",
        "I1",
        off(changed_rows, "bring_store_to", step_by_step),
        Climate({"sliding": True}, {"lose-store": 3.0}),
        _WRONG,
    ),
    Guard(
        "progress behind the windows",
        "windows that a publisher passed over, as it died between two parts of a milestone",
        "I4",
        off(ChangedWindows, "_windows", progress_at_once),
        Climate({"sliding": True, "part_rows": 2}, {"kill:publisher": 8.0}),
        _WRONG,
    ),
    Guard(
        "whole windows",
        "a view's windows of which some panes are gone",
        "I1",
        off(View, "complete_above_ms", horizon_of_rows),
        Climate({"sliding": True}, {"age": 3.0}),
        _WRONG,
    ),
    Guard(
        "finals kept until they are published",
        "windows that close and pass the horizon in one milestone",
        "I4",
        off(Finals, "_floor_ms", horizon_of_rows),
        Climate({"final": True}, {"age": 4.0}),
        _WRONG,
    ),
)
